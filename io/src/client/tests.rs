//! The client and the real broker, over real sockets.

use std::time::Duration;

use bytes::Bytes;
use odradek_core::client::{
    Acks, AdminTarget, ClientConfig, ClientError, OffsetReset, OffsetSpec, Outcome, Polled,
    ProducerRecord, StartAt, TopicName, TopicPartition,
};
use odradek_core::ids::Offset;
use odradek_core::input::Endpoint;
use odradek_core::record::Compression;
use odradek_core::wire::messages::CreateTopicsRequest;
use odradek_core::wire::messages::create_topics::CreatableTopic;
use odradek_core::wire::{ErrorCode, ResponseBody, Str};

use super::Client;
use crate::test_broker::{TestBroker, TestOptions};

const SECOND: Duration = Duration::from_secs(1);

fn config(broker: &TestBroker) -> ClientConfig {
    let address = broker.address();
    let mut config = ClientConfig::new(vec![Endpoint {
        host: address.ip().to_string(),
        port: address.port(),
    }]);
    config.consumer.auto_offset_reset = OffsetReset::Earliest;
    config.consumer.enable_partition_eof = true;
    config
}

async fn create(client: &Client, name: &str, partitions: i32) {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: Str::from(name),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let answer = client
        .admin()
        .request(AdminTarget::Controller, request, 10 * SECOND)
        .await
        .unwrap();
    let ResponseBody::CreateTopics(answer) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(answer.topics[0].error_code, ErrorCode::NONE);
}

/// Reads each partition to its end.
async fn read_all(client: &Client, topic: &str, partitions: i32) -> Vec<Polled> {
    let consumer = client.consumer();
    consumer.assign(
        (0..partitions)
            .map(|number| {
                let start = StartAt::Spec(OffsetSpec::Earliest);
                (TopicPartition::new(topic, number), start)
            })
            .collect(),
    );
    let mut records = Vec::new();
    let mut open = partitions;
    while open > 0 {
        let items = consumer.poll(20 * SECOND).await;
        assert!(!items.is_empty(), "nothing more, {open} partitions open");
        for item in items {
            match item {
                Polled::EndOfPartition { .. } => open -= 1,
                other => records.push(other),
            }
        }
    }
    records
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_every_compression_come_back_as_they_were_sent() {
    let mut broker = TestBroker::start(TestOptions::os()).unwrap();
    let topic = TopicName::from("orders");
    let setup = Client::start(&config(&broker)).unwrap();
    create(&setup, "orders", 3).await;
    let mut sent = Vec::new();
    for compression in Compression::ALL {
        let mut config = config(&broker);
        config.producer.compression = compression;
        config.producer.linger_ms = 1;
        let client = Client::start(&config).unwrap();
        let producer = client.producer();
        let mut deliveries = Vec::new();
        for number in 0..400 {
            let text = format!("{compression}-{number}");
            let mut record = ProducerRecord::new(&topic, text.clone());
            record.key = (number % 3 > 0).then(|| Bytes::from(text.clone()));
            record.value = (number % 5 > 0).then(|| Bytes::from(text.clone()));
            record.headers = vec![(Bytes::from("n"), Some(Bytes::from(text.clone())))];
            deliveries.push((text, record.key.clone(), producer.send(record).await));
        }
        producer.flush().await;
        for (text, key, delivery) in deliveries {
            match delivery.await {
                Outcome::Ok {
                    partition,
                    offset: Some(offset),
                    ..
                } => sent.push((partition, offset, text, key)),
                other => panic!("{text}: {other}"),
            }
        }
        client.close(5 * SECOND).await;
    }
    let mut read: Vec<_> = read_all(&setup, "orders", 3)
        .await
        .into_iter()
        .map(|item| match item {
            Polled::Record(record) => {
                let text = record.headers[0].1.clone().unwrap();
                let text = String::from_utf8(text.to_vec()).unwrap();
                (record.partition, record.offset, text, record.key)
            }
            other => panic!("{other}"),
        })
        .collect();
    sent.sort();
    read.sort();
    assert_eq!(read, sent);
    broker.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_outlives_its_broker() {
    let mut broker = TestBroker::start(TestOptions::fsync()).unwrap();
    let topic = TopicName::from("orders");
    let client = Client::start(&config(&broker)).unwrap();
    create(&client, "orders", 1).await;
    let producer = client.producer();
    let mut deliveries = Vec::new();
    for number in 0..300 {
        if number == 100 || number == 200 {
            broker.kill();
        }
        let record = ProducerRecord::new(&topic, format!("{number:03}"));
        deliveries.push(producer.send(record).await);
        if number == 110 || number == 210 {
            broker.restart().unwrap();
        }
    }
    producer.flush().await;
    for delivery in deliveries {
        assert!(matches!(delivery.await, Outcome::Ok { .. }));
    }
    let mut firsts: Vec<Bytes> = Vec::new();
    for item in read_all(&client, "orders", 1).await {
        let Polled::Record(record) = item else {
            panic!("{item}")
        };
        let value = record.value.unwrap();
        if !firsts.contains(&value) {
            firsts.push(value);
        }
    }
    let expected: Vec<Bytes> = (0..300).map(|n| Bytes::from(format!("{n:03}"))).collect();
    assert_eq!(firsts, expected, "all there, in the order of their sends");
    broker.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_positions_and_errors_are_the_brokers() {
    let mut broker =
        TestBroker::start(TestOptions::os().set("auto.create.topics.enable", "false")).unwrap();
    let client = Client::start(&config(&broker)).unwrap();
    create(&client, "orders", 1).await;
    let admin = client.admin();
    assert_eq!(admin.partitions("orders", 5 * SECOND).await, Ok(vec![0]));
    assert_eq!(
        admin.partitions("nowhere", 5 * SECOND).await,
        Err(ClientError::broker(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
    );
    let topic = TopicName::from("orders");
    for timestamp in [100, 200, 300] {
        let mut record = ProducerRecord::new(&topic, "x");
        record.timestamp = Some(timestamp);
        assert!(matches!(
            client.producer().send(record).await.await,
            Outcome::Ok { .. }
        ));
    }
    let consumer = client.consumer();
    let partition = TopicPartition::new("orders", 0);
    let found = consumer
        .offsets(
            vec![
                (partition.clone(), OffsetSpec::Earliest),
                (partition.clone(), OffsetSpec::Latest),
                (partition.clone(), OffsetSpec::Timestamp(150)),
                (partition.clone(), OffsetSpec::MaxTimestamp),
            ],
            5 * SECOND,
        )
        .await;
    let found: Vec<_> = found
        .into_iter()
        .map(|(_, found)| found.unwrap().offset.unwrap().0)
        .collect();
    assert_eq!(found, [0, 3, 1, 2]);
    consumer.assign(vec![(partition.clone(), StartAt::Offset(Offset(2)))]);
    let items = consumer.poll(5 * SECOND).await;
    assert!(matches!(&items[0], Polled::Record(record) if record.offset == Offset(2)));
    assert_eq!(consumer.position(&partition), Some(Offset(3)));
    client.close(SECOND).await;
    let late = client
        .producer()
        .send(ProducerRecord::new(&topic, "x"))
        .await;
    assert_eq!(late.await, Outcome::Failed(ClientError::Closed));
    broker.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_full_holds_the_sender_back() {
    let mut broker = TestBroker::start(TestOptions::os()).unwrap();
    let mut config = config(&broker);
    config.producer.buffer_memory = 10_000;
    config.producer.linger_ms = 1_000;
    let client = Client::start(&config).unwrap();
    create(&client, "orders", 1).await;
    let producer = client.producer();
    let topic = TopicName::from("orders");
    let mut deliveries = Vec::new();
    for _ in 0..200 {
        let record = ProducerRecord::new(&topic, vec![7; 1_000]);
        deliveries.push(producer.send(record).await);
    }
    for delivery in deliveries {
        assert!(
            matches!(delivery.await, Outcome::Ok { .. }),
            "none is refused"
        );
    }
    broker.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_without_acks_are_sent_before_a_close() {
    // More than a socket takes at once, to somebody who reads slowly.
    let mut broker = TestBroker::start(TestOptions::os()).unwrap();
    let mut config = config(&broker);
    config.producer.acks = Acks::None;
    config.producer.batch_size = 1 << 19;
    let client = Client::start(&config).unwrap();
    create(&client, "orders", 1).await;
    let producer = client.producer();
    let topic = TopicName::from("orders");
    for _ in 0..60 {
        let record = ProducerRecord::new(&topic, vec![7; 500_000]);
        drop(producer.send(record).await);
    }
    client.close(10 * SECOND).await;
    let reader = Client::start(&config).unwrap();
    let mut read = 0;
    for _ in 0..20 {
        read = read_all(&reader, "orders", 1).await.len();
        if read == 60 {
            break;
        }
        tokio::time::sleep(SECOND / 4).await;
    }
    assert_eq!(read, 60);
    broker.stop().unwrap();
}

#[tokio::test]
async fn a_client_that_is_dropped_says_so_to_whoever_waits() {
    let client = Client::start(&ClientConfig::new(vec![Endpoint {
        host: "127.0.0.1".to_owned(),
        port: 1,
    }]))
    .unwrap();
    let topic = TopicName::from("orders");
    let delivery = client
        .producer()
        .send(ProducerRecord::new(&topic, "x"))
        .await;
    drop(client);
    assert_eq!(delivery.await, Outcome::Unknown(ClientError::Closed));
}
