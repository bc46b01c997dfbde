//! `kcat -G`: three members share a topic; one is killed, then the broker is. Every record arrives,
//! and the members that are left carry on.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use odradek_client_tests::program::{Options, Program};
use odradek_client_tests::work_dir::WorkDir;

const TOPIC: &str = "shared";
const SESSION: Duration = Duration::from_secs(6);

/// A running `kcat -G`. Killed when dropped.
struct Member {
    child: Child,
    /// What it printed: a record a line.
    records: PathBuf,
    /// What it said about itself.
    messages: PathBuf,
}

impl Member {
    fn start(work: &WorkDir, address: SocketAddr, name: &str) -> Self {
        let (records, messages) = (
            work.join(format!("{name}.out")),
            work.join(format!("{name}.err")),
        );
        let child = Command::new("kcat")
            .args(["-b", &address.to_string(), "-u", "-E", "-G", "readers"])
            .args(["-X", &format!("session.timeout.ms={}", SESSION.as_millis())])
            .args(["-X", "auto.offset.reset=earliest"])
            .args(["-X", "auto.commit.interval.ms=100"])
            .arg(TOPIC)
            .stdin(Stdio::null())
            .stdout(File::create(&records).expect("a file of the test"))
            .stderr(File::create(&messages).expect("a file of the test"))
            .spawn()
            .unwrap_or_else(|error| panic!("kcat is needed and cannot be run: {error}"));
        Self {
            child,
            records,
            messages,
        }
    }

    fn kill(&mut self) {
        self.child
            .kill()
            .expect("a child of this process can be killed");
        self.child
            .wait()
            .expect("a child of this process can be waited for");
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.records).expect("a file of the test");
        text.lines().map(str::to_owned).collect()
    }

    /// How many partitions it was assigned last.
    fn assigned(&self) -> usize {
        let text = fs::read_to_string(&self.messages).expect("a file of the test");
        let last = text.lines().rfind(|line| line.contains("rebalanced"));
        let partitions = last.and_then(|line| line.split_once("assigned: "));
        partitions.map_or(0, |(_, list)| {
            list.split(", ").filter(|p| p.contains('[')).count()
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // An error means that it has ended already, which is what is wanted.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn produce(address: SocketAddr, numbers: std::ops::Range<u32>) {
    let mut kcat = Command::new("kcat")
        .args(["-b", &address.to_string(), "-P", "-t", TOPIC, "-p", "-1"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("kcat is needed and cannot be run: {error}"));
    let mut input = kcat.stdin.take().expect("its input is piped");
    for number in numbers {
        writeln!(input, "{number}").expect("kcat reads its input");
    }
    drop(input);
    assert!(kcat.wait().expect("kcat can be waited for").success());
}

/// Waits until `done`, but not for longer than `limit`.
fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn received(members: &[Member]) -> BTreeSet<String> {
    members.iter().flat_map(Member::lines).collect()
}

#[test]
fn a_killed_member_and_a_killed_broker_lose_nothing() {
    let work = WorkDir::new("kcat-group");
    let mut options = Options::new(work.path())
        .set("num.partitions", 6)
        .set("group.initial.rebalance.delay.ms", 500);
    let program = Program::start(&options).expect("the program starts");
    let address = program.address();
    options.listen = Some(address);

    produce(address, 0..1_000);
    let mut members: Vec<Member> = ["one", "two", "three"]
        .map(|name| Member::start(&work, address, name))
        .into();
    within(Duration::from_secs(30), "all have partitions", || {
        members.iter().map(Member::assigned).sum::<usize>() == 6
            && members.iter().all(|member| member.assigned() == 2)
    });
    within(Duration::from_secs(10), "the first thousand", || {
        received(&members).len() == 1_000
    });

    members[0].kill();
    produce(address, 1_000..2_000);
    within(
        SESSION + Duration::from_secs(6),
        "the two that are left share all",
        || members[1].assigned() + members[2].assigned() == 6,
    );
    within(Duration::from_secs(10), "the second thousand", || {
        received(&members).len() == 2_000
    });
    // Until what they read is committed.
    std::thread::sleep(Duration::from_secs(1));

    program.kill();
    let before: Vec<usize> = members.iter().map(|member| member.lines().len()).collect();
    let _program = Program::start(&options).expect("the program starts again");
    produce(address, 2_000..3_000);
    within(Duration::from_secs(20), "the third thousand", || {
        received(&members).len() == 3_000
    });
    let after: Vec<usize> = members.iter().map(|member| member.lines().len()).collect();
    let read: usize = after.iter().sum::<usize>() - before.iter().sum::<usize>();
    assert_eq!(read, 1_000, "they carried on from what they had committed");
}
