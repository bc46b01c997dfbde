//! A broker inside the test's own process: one call starts it, and its handle stops, kills and
//! restarts it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use harness::Client;
use harness::data_dir::{CLEAN_MARKER, temporary};
use harness::records::{all_values, batch};
use odradek_io::server::ServerError;
use odradek_io::test_broker::{TestBroker, TestOptions};

const TOPIC: &str = "orders";

fn values(broker: &TestBroker) -> Vec<Vec<u8>> {
    all_values(&Client::connect(broker.address()).fetch_all(TOPIC, 0, 0))
}

#[test]
fn what_was_acknowledged_is_there_after_kills_and_stops_under_either_policy() {
    for options in [TestOptions::fsync(), TestOptions::os()] {
        let mut broker = TestBroker::start(options).unwrap();
        let address = broker.address();
        let mut client = Client::connect(address);
        client.create_topic(TOPIC, 1, &[]);
        let first_epoch = client.leader_epoch(TOPIC);
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for round in 0..6 {
            let mut client = Client::connect(broker.address());
            for n in 0..10 {
                let value = format!("{round}-{n}").into_bytes();
                let offset = expected.len() as i64;
                assert_eq!(client.produce(TOPIC, 0, batch(&[&value])), Ok(offset));
                expected.push(value);
            }
            let marker = broker.data_dir().join(CLEAN_MARKER);
            if round % 2 == 0 {
                broker.kill();
                assert!(!marker.exists());
            } else {
                broker.stop().unwrap();
                assert!(marker.exists());
            }
            assert!(client.produced().is_err(), "the connection is gone");
            assert!(
                Client::try_named(address, "late").is_err(),
                "nobody listens"
            );
            broker.restart().unwrap();
            assert_eq!(broker.address(), address, "the same port");
            assert_eq!(values(&broker), expected);
        }
        // Three kills raised the epoch, three stops did not.
        let epoch = Client::connect(address).leader_epoch(TOPIC);
        assert_eq!(epoch, first_epoch + 3);
    }
}

#[test]
fn restart_without_a_stop_is_a_kill() {
    let mut broker = TestBroker::start(TestOptions::fsync()).unwrap();
    let mut client = Client::connect(broker.address());
    client.create_topic(TOPIC, 1, &[]);
    let epoch = client.leader_epoch(TOPIC);
    client.produce(TOPIC, 0, batch(&[b"a"])).unwrap();
    broker.restart().unwrap();
    assert_eq!(values(&broker), [b"a"]);
    assert_eq!(
        Client::connect(broker.address()).leader_epoch(TOPIC),
        epoch + 1
    );
}

#[test]
fn a_temporary_directory_goes_away_and_a_named_one_stays() {
    let mut broker = TestBroker::start(TestOptions::os()).unwrap();
    let gone = broker.data_dir().to_owned();
    assert!(gone.join("odradek.format").exists());
    broker.stop().unwrap();
    drop(broker);
    assert!(!gone.exists());

    let (_root, data) = temporary();
    let broker = TestBroker::start(TestOptions::os().data_dir(&data)).unwrap();
    let mut client = Client::connect(broker.address());
    client.create_topic(TOPIC, 1, &[]);
    client.produce(TOPIC, 0, batch(&[b"a"])).unwrap();
    // Dropping it is a kill, and gives the directory back.
    drop(broker);
    let broker = TestBroker::start(TestOptions::os().data_dir(&data)).unwrap();
    assert_eq!(values(&broker), [b"a"]);

    let second = TestBroker::start(TestOptions::os().data_dir(&data));
    match second.err() {
        Some(ServerError::DataDir(error)) => {
            assert!(error.to_string().contains(&data.display().to_string()));
        }
        other => panic!("{other:?}"),
    }
    // Being refused does no harm to the one that has it.
    assert_eq!(values(&broker), [b"a"]);
}

#[test]
fn properties_are_kafkas_and_a_wrong_one_is_an_error() {
    let options = TestOptions::os().set("num.partitions", "3");
    let broker = TestBroker::start(options).unwrap();
    let mut client = Client::connect(broker.address());
    client.create_topic(TOPIC, -1, &[]);
    assert_eq!(client.metadata(&[TOPIC]).topics[0].partitions.len(), 3);

    let error = TestBroker::start(TestOptions::os().set("num.partition", "3")).err();
    let words = error.unwrap().to_string();
    assert!(words.contains("num.partitions"), "{words}");
}

/// Several at once, each with its own port and directory, as tests that run side by side have.
#[test]
fn brokers_side_by_side_have_nothing_in_common() {
    let brokers: Vec<TestBroker> = (0..4)
        .map(|_| TestBroker::start(TestOptions::os()).unwrap())
        .collect();
    for (n, broker) in brokers.iter().enumerate() {
        let mut client = Client::connect(broker.address());
        client.create_topic(TOPIC, 1, &[]);
        for _ in 0..=n {
            client.produce(TOPIC, 0, batch(&[&[n as u8]])).unwrap();
        }
    }
    for (n, broker) in brokers.iter().enumerate() {
        assert_eq!(values(broker), vec![vec![n as u8]; n + 1]);
    }
}

/// Inside an async test, too, where a runtime is there already.
#[test]
fn it_starts_inside_another_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut broker = TestBroker::start(TestOptions::os()).unwrap();
        tokio::net::TcpStream::connect(broker.address())
            .await
            .unwrap();
        broker.stop().unwrap();
    });
}
