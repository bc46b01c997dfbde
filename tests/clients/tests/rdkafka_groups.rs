//! Consumer groups of librdkafka's consumers, in both protocols: eager and cooperative, static members,
//! twenty that join at once, subscriptions by pattern, a group that rolls from one protocol to the other;
//! with the program's own consumer among them. And
//! librdkafka's idempotent producer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use odradek_client_tests::program::{Options, Program, odradek};
use odradek_client_tests::work_dir::WorkDir;
use rdkafka::Message;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const PATIENCE: Duration = Duration::from_secs(30);

/// A way to be in a group.
type Protocol = &'static [(&'static str, &'static str)];

const EAGER: Protocol = &[("partition.assignment.strategy", "range")];
const COOPERATIVE: Protocol = &[("partition.assignment.strategy", "cooperative-sticky")];
const CONSUMER: Protocol = &[("group.protocol", "consumer")];

/// A broker and what librdkafka is told about it.
struct Scene {
    _work: WorkDir,
    options: Options,
    program: Option<Program>,
    bootstrap: String,
}

impl Scene {
    fn new(name: &str) -> Self {
        let work = WorkDir::new(&format!("rdkafka-groups-{name}"));
        let mut options = Options::new(work.path())
            .set("group.initial.rebalance.delay.ms", 300)
            .set("group.consumer.heartbeat.interval.ms", 300);
        let program = Program::start(&options).expect("the program starts");
        // Where it is found again after a restart.
        options.listen = Some(program.address());
        Self {
            bootstrap: program.address().to_string(),
            _work: work,
            options,
            program: Some(program),
        }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn create_topic(&self, name: &str, partitions: i32) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("tokio starts");
        let admin: AdminClient<DefaultClientContext> = self
            .config()
            .create()
            .expect("librdkafka makes an admin client");
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let created = runtime.block_on(admin.create_topics([&topic], &options));
        assert_eq!(
            created.expect("CreateTopics is answered"),
            [Ok(name.to_owned())]
        );
    }

    /// Sends these numbers, spread over the partitions.
    fn produce(&self, topic: &str, numbers: std::ops::Range<u32>, partitions: i32) {
        let producer: BaseProducer = self.config().create().expect("librdkafka makes a producer");
        for number in numbers {
            let value = number.to_string();
            let record = BaseRecord::<(), str>::to(topic)
                .partition(number as i32 % partitions)
                .payload(&value);
            producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("there is room");
        }
        producer.flush(PATIENCE).expect("everything is delivered");
    }

    fn member(&self, protocol: Protocol, name: Option<&str>, topic: &str) -> BaseConsumer {
        let mut config = self.config();
        config
            .set("group.id", "readers")
            .set("auto.offset.reset", "earliest")
            .set("auto.commit.interval.ms", "200")
            .set("topic.metadata.refresh.interval.ms", "500");
        if protocol != CONSUMER {
            // In the other protocol both are the broker's.
            config
                .set("session.timeout.ms", "6000")
                .set("heartbeat.interval.ms", "200");
        }
        for (key, value) in protocol {
            config.set(*key, *value);
        }
        if let Some(name) = name {
            config.set("group.instance.id", name);
        }
        let member: BaseConsumer = config.create().expect("librdkafka makes a consumer");
        member
            .subscribe(&[topic])
            .expect("a topic can be subscribed to");
        member
    }
}

/// What a member owns.
fn owned(member: &BaseConsumer) -> BTreeSet<(String, i32)> {
    let assignment = member.assignment().expect("a consumer has an assignment");
    let each = assignment.elements();
    each.iter()
        .map(|one| (one.topic().to_owned(), one.partition()))
        .collect()
}

/// Members that are polled in turn, and what they read.
#[derive(Default)]
struct Members {
    list: Vec<BaseConsumer>,
    read: BTreeMap<u32, usize>,
}

impl Drop for Members {
    /// All at once: one that leaves alone waits for the others to join again, and nobody polls them.
    fn drop(&mut self) {
        let leaving = self.list.drain(..);
        let leaving: Vec<_> = leaving
            .map(|member| std::thread::spawn(move || drop(member)))
            .collect();
        for one in leaving {
            // A panic there was reported there.
            let _ended = one.join();
        }
    }
}

impl Members {
    fn poll(&mut self) {
        for member in &self.list {
            match member.poll(Duration::from_millis(5)) {
                None => {}
                Some(Ok(message)) => {
                    let text = message.payload().unwrap_or_default();
                    let number = String::from_utf8_lossy(text).parse().expect("a number");
                    *self.read.entry(number).or_default() += 1;
                }
                // Whatever passes is retried by librdkafka itself.
                Some(Err(error)) => eprintln!("a member says: {error}"),
            }
        }
    }

    /// Polls until `done`.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            let shares: Vec<_> = self.list.iter().map(owned).collect();
            assert!(
                Instant::now() < deadline,
                "not in time: {what}; {} read, shares {shares:?}",
                self.read.len()
            );
            self.poll();
        }
    }

    /// Polls until each partition has one owner, and the shares differ by at most one.
    fn until_shared(&mut self, partitions: usize) {
        self.until("all partitions are shared", |members| {
            members.shares_are_even(partitions)
        });
    }

    fn shares_are_even(&self, partitions: usize) -> bool {
        let shares: Vec<_> = self.list.iter().map(owned).collect();
        let all: BTreeSet<_> = shares.iter().flatten().collect();
        let sizes = || shares.iter().map(BTreeSet::len);
        let (least, most) = (sizes().min(), sizes().max());
        all.len() == partitions
            && sizes().sum::<usize>() == partitions
            && most.unwrap_or(0) <= least.unwrap_or(0) + 1
    }
}

/// Members join and leave, and everything is read.
fn shares_and_hands_over(name: &str, protocol: Protocol) {
    let scene = Scene::new(name);
    scene.create_topic("orders", 6);
    scene.produce("orders", 0..300, 6);
    let mut members = Members::default();
    for _ in 0..2 {
        members.list.push(scene.member(protocol, None, "orders"));
    }
    members.until_shared(6);
    members.list.push(scene.member(protocol, None, "orders"));
    members.until_shared(6);
    scene.produce("orders", 300..600, 6);
    members.until("the first six hundred", |members| members.read.len() == 600);
    // It commits and leaves.
    drop(members.list.remove(0));
    members.until_shared(6);
    scene.produce("orders", 600..900, 6);
    members.until("all nine hundred", |members| members.read.len() == 900);
    let late = members.read.range(600..).filter(|(_, times)| **times > 1);
    assert_eq!(
        late.count(),
        0,
        "nobody left or joined after these were sent"
    );
}

#[test]
fn eager_members_share_and_hand_over() {
    shares_and_hands_over("eager", EAGER);
}

#[test]
fn cooperative_members_share_and_hand_over() {
    shares_and_hands_over("cooperative", COOPERATIVE);
}

#[test]
fn members_of_a_consumer_group_share_and_hand_over() {
    shares_and_hands_over("consumer", CONSUMER);
}

/// A static member that restarts has its partitions again, and nobody else notices.
fn keeps_its_partitions(name: &str, protocol: Protocol) {
    let scene = Scene::new(name);
    scene.create_topic("orders", 4);
    let mut members = Members::default();
    for name in ["one", "two"] {
        members
            .list
            .push(scene.member(protocol, Some(name), "orders"));
    }
    members.until_shared(4);
    let before: Vec<_> = members.list.iter().map(owned).collect();
    drop(members.list.remove(0));
    let again = scene.member(protocol, Some("one"), "orders");
    members.list.insert(0, again);
    members.until("it is back", |members| owned(&members.list[0]) == before[0]);
    assert_eq!(owned(&members.list[1]), before[1]);
}

#[test]
fn static_members_keep_their_partitions() {
    keeps_its_partitions("static-classic", EAGER);
    keeps_its_partitions("static-consumer", CONSUMER);
}

fn twenty_at_once(name: &str, protocol: Protocol) {
    let scene = Scene::new(name);
    scene.create_topic("orders", 40);
    let mut members = Members::default();
    for _ in 0..20 {
        members.list.push(scene.member(protocol, None, "orders"));
    }
    members.until_shared(40);
}

#[test]
fn twenty_members_join_at_once() {
    twenty_at_once("twenty-classic", COOPERATIVE);
    twenty_at_once("twenty-consumer", CONSUMER);
}

fn by_pattern(name: &str, protocol: Protocol) {
    let scene = Scene::new(name);
    scene.create_topic("orders-eu", 2);
    scene.create_topic("payments", 2);
    let mut members = Members::default();
    members
        .list
        .push(scene.member(protocol, None, "^orders-.*"));
    members.until_shared(2);
    scene.create_topic("orders-us", 3);
    members.until("the new topic is found", |members| {
        owned(&members.list[0]).len() == 5
    });
    let topics: BTreeSet<String> = owned(&members.list[0]).into_iter().map(|p| p.0).collect();
    assert_eq!(
        topics,
        BTreeSet::from(["orders-eu".into(), "orders-us".into()])
    );
}

#[test]
fn a_pattern_finds_topics_that_come_later() {
    by_pattern("pattern-classic", EAGER);
    by_pattern("pattern-consumer", CONSUMER);
}

/// Members are exchanged one by one for those of the other protocol, and then back again: everything is
/// read once, whoever reads it.
fn rolls_and_rolls_back(name: &str, classic: Protocol) {
    let scene = Scene::new(name);
    scene.create_topic("orders", 6);
    let mut members = Members::default();
    for _ in 0..2 {
        members.list.push(scene.member(classic, None, "orders"));
    }
    let mut sent = 0;
    let mut read_more = |members: &mut Members| {
        members.until_shared(6);
        scene.produce("orders", sent..sent + 60, 6);
        sent += 60;
        members.until("all that was sent", |members| {
            members.read.len() == sent as usize
        });
    };
    read_more(&mut members);
    for protocol in [CONSUMER, CONSUMER, classic, classic] {
        // Both protocols are in the group when the third comes, and when the first one goes.
        members.list.push(scene.member(protocol, None, "orders"));
        read_more(&mut members);
        drop(members.list.remove(0));
        read_more(&mut members);
    }
    let again: Vec<_> = members.read.iter().filter(|(_, times)| **times > 1).collect();
    assert!(again.is_empty(), "what was committed stays: {again:?}");
}

#[test]
fn a_group_of_eager_members_rolls_to_the_other_protocol_and_back() {
    rolls_and_rolls_back("roll-eager", EAGER);
}

#[test]
fn a_group_of_cooperative_members_rolls_to_the_other_protocol_and_back() {
    rolls_and_rolls_back("roll-cooperative", COOPERATIVE);
}

/// The program's own consumer as a member. Killed when dropped, unless it was told to stop.
struct Own {
    child: Child,
    read: Arc<Mutex<Vec<u32>>>,
    reader: Option<JoinHandle<()>>,
}

impl Own {
    fn start(scene: &Scene, args: &[&str]) -> Self {
        let mut child = odradek()
            .args(["consume", "orders", "--group", "readers"])
            .args(["--from", "beginning", "--bootstrap", &scene.bootstrap])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its output is piped"));
        let read = Arc::new(Mutex::new(Vec::new()));
        let list = read.clone();
        let reader = std::thread::spawn(move || {
            for line in lines.lines() {
                let number = line.expect("text").parse().expect("a number");
                list.lock().expect("nobody panicked").push(number);
            }
        });
        Self {
            child,
            read,
            reader: Some(reader),
        }
    }

    fn read(&self) -> Vec<u32> {
        self.read.lock().expect("nobody panicked").clone()
    }

    /// As Ctrl-C does: it commits and leaves.
    fn interrupt(&mut self) {
        let pid = self.child.id() as libc::pid_t;
        // SAFETY: the child has not been waited for, so the id is its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        assert!(self.child.wait().expect("it ends").success());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it read to the end");
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A group of librdkafka's members and one of the program's own.
fn mixed(name: &str, protocol: Protocol, own: &[&str]) {
    let scene = Scene::new(name);
    scene.create_topic("orders", 6);
    let mut members = Members::default();
    for _ in 0..2 {
        members.list.push(scene.member(protocol, None, "orders"));
    }
    members.until_shared(6);
    let mut own = Own::start(&scene, own);
    // It gets a third.
    members.until("the program's own member has its share", |members| {
        members.list.iter().all(|member| owned(member).len() == 2)
    });
    scene.produce("orders", 0..600, 6);
    members.until("the first six hundred", |members| {
        members.read.len() + own.read().len() >= 600
    });
    assert!(own.read().len() >= 200, "a third of them");
    own.interrupt();
    members.until_shared(6);
    scene.produce("orders", 600..900, 6);
    members.until("what its successors read", |members| {
        members.read.range(600..).count() == 300
    });
    let mut all: BTreeSet<u32> = members.read.keys().copied().collect();
    all.extend(own.read());
    assert_eq!(all, (0..900).collect(), "nothing is missing");
    let twice = own
        .read()
        .iter()
        .filter(|one| members.read.contains_key(one))
        .count();
    assert_eq!(twice, 0, "it committed what it had read before it left");
}

#[test]
fn the_programs_own_consumer_shares_a_group_with_eager_members() {
    mixed("mixed-eager", EAGER, &["--assignor", "range"]);
}

#[test]
fn the_programs_own_consumer_shares_a_group_with_cooperative_members() {
    mixed(
        "mixed-cooperative",
        COOPERATIVE,
        &["--assignor", "cooperative-sticky"],
    );
}

#[test]
fn the_programs_own_consumer_shares_a_consumer_group() {
    mixed("mixed-consumer", CONSUMER, &["--protocol", "consumer"]);
}

/// The broker is killed twice while an idempotent producer sends: nothing is there twice.
#[test]
fn an_idempotent_producer_writes_everything_once() {
    const RECORDS: u32 = 20_000;
    let mut scene = Scene::new("idempotent");
    scene.create_topic("orders", 1);
    let producer: BaseProducer = scene
        .config()
        .set("enable.idempotence", "true")
        .set("linger.ms", "1")
        .set("reconnect.backoff.max.ms", "200")
        .create()
        .expect("librdkafka makes a producer");
    for number in 0..RECORDS {
        if number % 8_000 == 7_999 {
            scene.program.take().expect("it runs").kill();
            scene.program = Some(Program::start(&scene.options).expect("it starts again"));
        }
        let value = number.to_string();
        let mut record = BaseRecord::<(), str>::to("orders")
            .partition(0)
            .payload(&value);
        while let Err((_, returned)) = producer.send(record) {
            producer.poll(Duration::from_millis(10));
            record = returned;
        }
        producer.poll(Duration::ZERO);
    }
    producer.flush(PATIENCE).expect("everything is delivered");
    let mut members = Members::default();
    members.list.push(scene.member(CONSUMER, None, "orders"));
    members.until("everything is read", |members| {
        members.read.len() == RECORDS as usize
    });
    assert!(members.read.values().all(|times| *times == 1), "each once");
}
