//! A run behind real sockets and files is a script: the inputs that the edge recorded, handled
//! again by the same kind of broker in a plain loop, without edge, files or threads, give the same
//! effects, byte for byte and step for step. And the simulator's disk, which those effects are asked of,
//! answers as the real one did and holds the same files in the end.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;
#[path = "harness/mirror.rs"]
mod mirror;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use harness::Client;
use harness::client::{FETCH, PRODUCE, fetch_request, produce_request};
use harness::data_dir::{append, segment_files, temporary};
use harness::records::{TIME, all_values, batch, batch_at};
use mirror::{Mirror, Tree, tree_of};
use odradek_core::broker::Broker;
use odradek_core::effect::{Effect, Effects};
use odradek_core::input::Input;
use odradek_core::log::Durability;
use odradek_core::metadata::config::BrokerConfig;
use odradek_core::time::Now;
use odradek_core::wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use odradek_core::wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use odradek_core::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use odradek_io::recorder::Recorder;
use odradek_io::test_broker::{InProcess, Setup};

const SEED: [u8; 32] = [42; 32];

/// What was recorded of one process: its steps.
type Tape = Arc<Mutex<Vec<Step>>>;

#[derive(Debug)]
struct Step {
    now: Now,
    input: Input,
    effects: Vec<String>,
}

/// Keeps each input and, in full, each effect.
struct Keep(Tape);

impl Recorder<Input> for Keep {
    fn input(&mut self, now: Now, input: &Input) {
        self.0.lock().unwrap().push(Step {
            now,
            input: input.clone(),
            effects: Vec::new(),
        });
    }

    fn effect(&mut self, effect: &Effect) {
        let mut steps = self.0.lock().unwrap();
        let step = steps.last_mut().expect("an effect follows an input");
        step.effects.push(in_full(effect));
    }
}

/// An effect in one line, with a checksum of all that the line leaves out.
fn in_full(effect: &Effect) -> String {
    let everything = format!("{effect:?}");
    format!("{effect} #{:016x}", digest(everything.as_bytes()))
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn config(durability: Durability) -> BrokerConfig {
    let properties = [
        ("log.retention.check.interval.ms", "150"),
        ("log.segment.bytes", "1048576"),
        // Records of these tests are old; only the topic that says so loses them.
        ("log.retention.ms", "-1"),
    ];
    let pairs = properties.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let (mut config, _) = BrokerConfig::from_properties(pairs).unwrap();
    config.durability = durability;
    config
}

/// A broker whose processes are recorded, each on a tape of its own, with what the directory held when
/// it started.
struct Recorded {
    broker: InProcess<Broker>,
    tapes: Arc<Mutex<Vec<(Tree, Tape)>>>,
    durability: Durability,
    data: PathBuf,
}

impl Recorded {
    fn start(data: &Path, durability: Durability) -> Self {
        let tapes: Arc<Mutex<Vec<(Tree, Tape)>>> = Arc::default();
        let all = tapes.clone();
        let directory = data.to_owned();
        let broker = InProcess::launch(
            Setup {
                data_dir: Some(data.to_owned()),
                ..Setup::default()
            },
            move || Broker::new(config(durability), SEED),
            Some(Box::new(move || {
                let tape = Tape::default();
                let before = tree_of(&directory);
                all.lock().unwrap().push((before, tape.clone()));
                Box::new(Keep(tape))
            })),
        )
        .unwrap();
        Self {
            broker,
            tapes,
            durability,
            data: data.to_owned(),
        }
    }

    fn client(&self, name: &str) -> Client {
        Client::named(self.broker.address(), name)
    }

    /// Handles every tape again in a plain loop; how many inputs and effects of each kind there
    /// were.
    fn replay_all(mut self) -> std::collections::BTreeMap<String, usize> {
        self.broker.kill();
        let mut kinds = std::collections::BTreeMap::new();
        let mut tapes = self.tapes.lock().unwrap();
        let mut after: Vec<Tree> = tapes.iter().skip(1).map(|(tree, _)| tree.clone()).collect();
        after.push(tree_of(&self.data));
        for (process, (before, tape)) in tapes.iter_mut().enumerate() {
            let steps = std::mem::take(&mut *tape.lock().unwrap());
            assert!(!steps.is_empty());
            for step in &steps {
                let first_words = |line: &str, count| {
                    let words: Vec<&str> = line.split(' ').take(count).collect();
                    words.join(" ")
                };
                let input = step.input.to_string();
                let count = if input.starts_with("disk") { 2 } else { 1 };
                *kinds.entry(first_words(&input, count)).or_default() += 1;
                for effect in &step.effects {
                    *kinds.entry(first_words(effect, 1)).or_default() += 1;
                }
            }
            let stopped = steps
                .iter()
                .flat_map(|step| &step.effects)
                .any(|effect| effect.starts_with("stopped"));
            let mirror = replay(process, self.durability, before, steps);
            // A kill finds some of it undone.
            if stopped {
                assert_same(&mirror.tree(), &after[process]);
            }
        }
        kinds
    }
}

/// Where two trees differ, in a few words instead of all their bytes.
fn assert_same(virtually: &Tree, really: &Tree) {
    let names = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(virtually), names(really));
    for (path, content) in virtually {
        assert!(
            content == &really[path],
            "{path}: virtually {:?} bytes, really {:?}",
            content.as_ref().map(Bytes::len),
            really[path].as_ref().map(Bytes::len)
        );
    }
}

/// Handles a tape again, and gives what its effects make of the simulator's disk.
fn replay(process: usize, durability: Durability, before: &Tree, steps: Vec<Step>) -> Mirror {
    let mut mirror = Mirror::with(before);
    let mut broker = Broker::new(config(durability), SEED);
    let mut effects = Effects::new();
    for (number, step) in steps.into_iter().enumerate() {
        let place = format!("process {process}, step {number}: {}", step.input);
        if let Input::Disk(completion) = &step.input {
            let checked = mirror.check(completion);
            checked.unwrap_or_else(|difference| panic!("{place}: {difference}"));
        }
        broker.handle(step.now, step.input, &mut effects);
        let effects: Vec<Effect> = effects.drain().collect();
        let replayed: Vec<String> = effects.iter().map(in_full).collect();
        assert_eq!(replayed, step.effects, "{place}");
        for effect in effects {
            mirror.carry_out(effect);
        }
    }
    mirror
}

/// A bit of everything: topics made and deleted, several producers, partitions and policies of
/// acknowledgement, long-polls that are woken and that expire, look-ups by time, deleted records,
/// retention, hostile bytes, connections that break, a kill, a torn tail, a clean stop.
fn live(data: &Path, durability: Durability) -> Recorded {
    let mut recorded = Recorded::start(data, durability);
    let mut client = recorded.client("first");
    client.create_topic("orders", 2, &[]);
    client.create_topic(
        "short",
        1,
        &[("retention.ms", "1"), ("segment.bytes", "1048576")],
    );

    let address = recorded.broker.address();
    let producers: Vec<_> = (0..3_u8)
        .map(|who| {
            std::thread::spawn(move || {
                let mut client = Client::named(address, &format!("producer-{who}"));
                for n in 0..30_i32 {
                    let value = vec![who; 10 + 997 * n as usize % 5000];
                    let batches = [(0, batch(&[&value, b"two"])), (n % 3, batch(&[&value]))];
                    let request = produce_request("orders", -1, &batches);
                    client.send(PRODUCE, &request).unwrap();
                    if n % 4 == 3 {
                        while client.outstanding() > 0 {
                            client.produced().unwrap();
                        }
                    }
                }
                let silent = produce_request("orders", 0, &[(1, batch(&[b"no answer"]))]);
                client.send_unanswered(PRODUCE, &silent).unwrap();
                while client.outstanding() > 0 {
                    client.produced().unwrap();
                }
            })
        })
        .collect();
    let consumer = std::thread::spawn(move || {
        let mut client = Client::named(address, "consumer");
        let mut offset = 0;
        while offset < 60 {
            let found = client.try_fetch("orders", 0, offset, 1000).unwrap();
            let mut batches = Vec::new();
            if let Some(odradek_core::wire::Records::Bytes(bytes)) = found.records {
                harness::records::split(bytes, &mut batches);
            }
            offset += all_values(&batches).len() as i64;
        }
        // Woken by nobody.
        client.try_fetch("orders", 0, 1 << 20, 10).unwrap();
        let end = client.list_offset("orders", 1, -1).offset;
        client.try_fetch("orders", 1, end, 50).unwrap();
    });
    // Retention has segments to remove.
    for n in 0..8 {
        let value = vec![n; 400 << 10];
        client.produce("short", 0, batch(&[&value])).unwrap();
    }
    for thread in producers {
        thread.join().unwrap();
    }
    consumer.join().unwrap();
    std::thread::sleep(Duration::from_millis(400));

    for n in 0..5 {
        let values: [&[u8]; 2] = [b"by time", b"and more"];
        let time = TIME + 1000 * n;
        client
            .produce("orders", 1, batch_at(time, &values))
            .unwrap();
        client.list_offset("orders", 1, time);
    }
    client.list_offset("orders", 1, -3);
    let describe = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 2,
            resource_name: "short".into(),
            configuration_keys: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    client.ask(4, &describe).unwrap();
    let delete = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "orders".into(),
            partitions: vec![DeleteRecordsPartition {
                offset: 7,
                ..Default::default()
            }],
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    client.ask(2, &delete).unwrap();
    client.create_topic("passing", 2, &[]);
    let delete = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some("passing".into()),
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    client.ask(6, &delete).unwrap();

    // A client that is gone before its answer, one that makes no sense, one that says nothing.
    let mut gone = recorded.client("gone");
    gone.send(FETCH, &fetch_request("orders", 1, 1000, 30_000))
        .unwrap();
    drop(gone);
    let mut hostile = recorded.client("hostile");
    hostile
        .send_bytes(&[0, 0, 0, 9, 0, 1, 0, 12, 0, 0, 0, 1, 9])
        .unwrap();
    hostile.drain().unwrap();
    drop(recorded.client("silent"));

    // Cold reads and recovery: a kill, a torn tail, a start, everything read again.
    recorded.broker.kill();
    let active = segment_files(data, "orders-1", "log").pop().unwrap();
    let torn: Bytes = batch(&[&[7; 500]]);
    append(&active, &torn[..300]);
    recorded.broker.restart().unwrap();
    let mut client = recorded.client("second");
    for partition in 0..2 {
        let start = client.list_offset("orders", partition, -2).offset;
        assert!(!client.fetch_all("orders", partition, start).is_empty());
    }
    client.produce("orders", 1, batch(&[b"goes on"])).unwrap();
    recorded.broker.stop().unwrap();
    recorded.broker.restart().unwrap();
    let mut client = recorded.client("third");
    client.fetch_all("orders", 1, 0);
    client.produce("orders", 0, batch(&[b"the last"])).unwrap();
    recorded.broker.stop().unwrap();
    recorded
}

#[test]
fn a_recorded_script_gives_the_same_effects_in_a_plain_loop() {
    for durability in [Durability::Fsync, Durability::Os] {
        let (_root, data) = temporary();
        let kinds = live(&data, durability).replay_all();
        println!("{durability:?}: {kinds:?}");
        // It was a script worth replaying.
        for kind in [
            "start",
            "opened",
            "request",
            "closed",
            "deadline",
            "stop",
            "disk written",
            "disk flushed",
            "disk managed",
            "disk read",
            "respond",
            "close",
            "open",
            "write",
            "flush",
            "manage",
            "read",
            "report",
            "started",
            "stopped",
        ] {
            assert!(kinds.get(kind).is_some_and(|count| *count > 0), "no {kind}");
        }
    }
}

/// The comparison is not blind: with another seed, another configuration, or an input less, the
/// replay differs.
#[test]
fn a_script_that_was_tampered_with_is_noticed() {
    let (_root, data) = temporary();
    let mut recorded = Recorded::start(&data, Durability::Fsync);
    let mut client = recorded.client("only");
    client.create_topic("orders", 1, &[]);
    client.produce("orders", 0, batch(&[b"a"])).unwrap();
    recorded.broker.stop().unwrap();
    let (before, tape) = recorded.tapes.lock().unwrap()[0].clone();
    let steps = || -> Vec<Step> {
        let kept = tape.lock().unwrap();
        let copy = |step: &Step| Step {
            now: step.now,
            input: step.input.clone(),
            effects: step.effects.clone(),
        };
        kept.iter().map(copy).collect()
    };
    replay(0, Durability::Fsync, &before, steps());
    let differs = |durability, steps: Vec<Step>| {
        let before = before.clone();
        let replayed = move || drop(replay(0, durability, &before, steps));
        std::panic::catch_unwind(replayed).is_err()
    };
    assert!(
        differs(Durability::Os, steps()),
        "acknowledged at another time"
    );
    let mut shorter = steps();
    let flushed = shorter
        .iter()
        .rposition(|step| step.input.to_string().starts_with("disk flushed"))
        .unwrap();
    shorter.remove(flushed);
    assert!(differs(Durability::Fsync, shorter), "a flush less");
    let mut later = steps();
    for step in &mut later {
        for effect in &mut step.effects {
            *effect = effect.replace("write f2 0+", "write f2 1+");
        }
    }
    assert!(differs(Durability::Fsync, later), "another position");
}
