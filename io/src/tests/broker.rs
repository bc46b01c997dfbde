//! The broker behind real sockets and files.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use odradek_core::effect::Part;
use odradek_core::record::batch::Compression;
use odradek_core::record::builder::{BatchBuilder, BatchFields};
use odradek_core::record::records::BatchRecords;
use odradek_core::wire::frame::{decode_response, encode_request};
use odradek_core::wire::messages::Body;
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ErrorCode, Records, RequestHeader, ResponseBody};

use crate::test_broker::{TestBroker, TestOptions};

pub(super) const TOPIC: &str = "orders";
pub(super) const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;

pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, version: i16, body: &impl Body) -> std::io::Result<()> {
        self.0.write_all(&frame(version, body))
    }

    fn receive(
        &mut self,
        api: odradek_core::wire::ApiKey,
        version: i16,
    ) -> std::io::Result<ResponseBody> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(decode_response(api, version, Bytes::from(frame)).unwrap().1)
    }

    fn ask<B: Body>(&mut self, version: i16, body: &B) -> std::io::Result<ResponseBody> {
        self.send(version, body)?;
        self.receive(body.api(), version)
    }

    /// Asks until the topic is there.
    pub(super) fn create_topic(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(TOPIC.into()),
                ..MetadataRequestTopic::default()
            }]),
            allow_auto_topic_creation: true,
            ..MetadataRequest::default()
        };
        loop {
            let ResponseBody::Metadata(answer) = self.ask(8, &request).unwrap() else {
                panic!("not a Metadata response")
            };
            if answer
                .topics
                .iter()
                .all(|topic| topic.error_code == ErrorCode::NONE && !topic.partitions.is_empty())
            {
                return;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Produces a batch with one record a value; returns its base offset.
    pub(super) fn produce(&mut self, values: &[&[u8]]) -> std::io::Result<Result<i64, ErrorCode>> {
        self.send(PRODUCE_VERSION, &produce_request(values))?;
        self.produced()
    }

    fn produced(&mut self) -> std::io::Result<Result<i64, ErrorCode>> {
        let api = odradek_core::wire::ApiKey::Produce;
        let ResponseBody::Produce(answer) = self.receive(api, PRODUCE_VERSION)? else {
            panic!("not a Produce response")
        };
        let partition = &answer.responses[0].partition_responses[0];
        Ok(if partition.error_code == ErrorCode::NONE {
            Ok(partition.base_offset)
        } else {
            Err(partition.error_code)
        })
    }

    /// Everything from `offset` to the high watermark.
    fn fetch_all(&mut self, mut offset: i64) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        loop {
            let (bytes, high_watermark) = self.fetch(offset, 0);
            offset += read(&bytes, offset, &mut values);
            if offset >= high_watermark {
                return values;
            }
        }
    }

    pub(super) fn fetch(&mut self, offset: i64, max_wait_ms: i32) -> (Bytes, i64) {
        let request = FetchRequest {
            max_wait_ms,
            min_bytes: 1,
            topics: vec![FetchTopic {
                topic: TOPIC.into(),
                partitions: vec![FetchPartition {
                    fetch_offset: offset,
                    partition_max_bytes: 1 << 20,
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        let ResponseBody::Fetch(answer) = self.ask(FETCH_VERSION, &request).unwrap() else {
            panic!("not a Fetch response")
        };
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::NONE);
        match &partition.records {
            Some(Records::Bytes(bytes)) => (bytes.clone(), partition.high_watermark),
            other => panic!("records are bytes, not {other:?}"),
        }
    }
}

fn batch(values: &[&[u8]]) -> Bytes {
    let mut builder = BatchBuilder::new(1 << 22);
    for value in values {
        assert!(builder.append(1_700_000_000_000, None, Some(value), &[]));
    }
    builder.build(BatchFields {
        compression: Compression::None,
        ..BatchFields::default()
    })
}

/// A frame, its length first.
pub(super) fn frame(version: i16, body: &impl Body) -> Vec<u8> {
    let header = RequestHeader {
        api_version: version,
        client_id: Some("io-test".into()),
        ..RequestHeader::default()
    };
    let mut frame = Vec::new();
    for part in encode_request(&header, body).parts {
        let Part::Bytes(bytes) = part else {
            panic!("a request has no file ranges")
        };
        frame.put(bytes);
    }
    frame
}

pub(super) fn produce_request(values: &[&[u8]]) -> ProduceRequest {
    ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.into(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(Records::Bytes(batch(values))),
                ..PartitionProduceData::default()
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}

/// The values of whole batches from `offset` on; returns how many records that were.
fn read(bytes: &Bytes, offset: i64, values: &mut Vec<Vec<u8>>) -> i64 {
    let mut at = 0;
    let before = values.len();
    while at < bytes.len() {
        let records = BatchRecords::open(&bytes.slice(at..), 1 << 24).unwrap();
        for record in records.iter() {
            let record = record.unwrap();
            if record.offset.0 >= offset {
                values.push(record.value.unwrap().to_vec());
            }
        }
        at += 12 + u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    (values.len() - before) as i64
}

fn value(number: u64, length: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(length.max(8), number as u8);
    value
}

#[test]
fn what_is_produced_is_fetched_by_another_client_under_either_policy() {
    for options in [TestOptions::fsync(), TestOptions::os()] {
        let broker = TestBroker::start(options).unwrap();
        let mut producer = Client::connect(broker.address());
        producer.create_topic();
        let values: Vec<_> = (0..200)
            .map(|n| value(n, (n as usize * 97) % 9000))
            .collect();
        for (n, chunk) in values.chunks(10).enumerate() {
            let chunk: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
            assert_eq!(producer.produce(&chunk).unwrap(), Ok(n as i64 * 10));
        }
        let mut consumer = Client::connect(broker.address());
        assert!(consumer.fetch_all(0) == values);
    }
}

#[test]
fn pipelined_batches_are_acknowledged_in_order() {
    let broker = TestBroker::start(TestOptions::fsync()).unwrap();
    let mut client = Client::connect(broker.address());
    client.create_topic();
    for n in 0..100 {
        let request = produce_request(&[&value(n, 100)]);
        client.send(PRODUCE_VERSION, &request).unwrap();
    }
    for n in 0..100 {
        assert_eq!(client.produced().unwrap(), Ok(n));
    }
}

#[test]
fn a_waiting_consumer_gets_a_record_as_soon_as_it_is_there() {
    let broker = TestBroker::start(TestOptions::os()).unwrap();
    let mut producer = Client::connect(broker.address());
    producer.create_topic();
    let mut consumer = Client::connect(broker.address());
    let waiting = std::thread::spawn(move || {
        let begun = Instant::now();
        let (bytes, _) = consumer.fetch(0, 20_000);
        (bytes, begun.elapsed())
    });
    std::thread::sleep(Duration::from_millis(100));
    producer.produce(&[b"hello"]).unwrap().unwrap();
    let (bytes, waited) = waiting.join().unwrap();
    let mut values = Vec::new();
    assert_eq!(read(&bytes, 0, &mut values), 1);
    assert!(waited < Duration::from_secs(10), "{waited:?}");
}

#[test]
fn a_killed_broker_has_everything_it_acknowledged() {
    let mut broker = TestBroker::start(TestOptions::fsync()).unwrap();
    Client::connect(broker.address()).create_topic();
    let mut acknowledged = Vec::new();
    for round in 0..5u64 {
        let address = broker.address();
        let writer = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            let mut done = Vec::new();
            for n in 0.. {
                let sent = value(round * 1_000_000 + n, 300);
                match client.produce(&[&sent]) {
                    Ok(Ok(offset)) => done.push((offset, sent)),
                    Ok(Err(error)) => panic!("{error:?}"),
                    Err(_) => break,
                }
            }
            done
        });
        std::thread::sleep(Duration::from_millis(150));
        broker.kill();
        acknowledged.extend(writer.join().unwrap());
        broker.restart().unwrap();
        let stored = Client::connect(broker.address()).fetch_all(0);
        for (offset, sent) in &acknowledged {
            assert!(stored[*offset as usize] == *sent, "offset {offset}");
        }
    }
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
    broker.stop().unwrap();
    broker.restart().unwrap();
    let stored = Client::connect(broker.address()).fetch_all(0);
    assert!(stored.len() >= acknowledged.len());
}

#[test]
fn many_clients_commit_together() {
    let broker = TestBroker::start(TestOptions::fsync()).unwrap();
    Client::connect(broker.address()).create_topic();
    let address = broker.address();
    let threads: Vec<_> = (0..20)
        .map(|who| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut offsets = Vec::new();
                for n in 0..20 {
                    let sent = value(who * 100 + n, 100);
                    offsets.push((client.produce(&[&sent]).unwrap().unwrap(), sent));
                }
                offsets
            })
        })
        .collect();
    let mut offsets: Vec<_> = threads
        .into_iter()
        .flat_map(|t| t.join().unwrap())
        .collect();
    offsets.sort();
    let stored = Client::connect(address).fetch_all(0);
    assert_eq!(offsets.len(), stored.len());
    for (n, (offset, sent)) in offsets.iter().enumerate() {
        assert_eq!(*offset, n as i64, "dense");
        assert!(stored[n] == *sent);
    }
}

#[test]
fn garbage_closes_its_connection_and_nothing_else() {
    let broker = TestBroker::start(TestOptions::os()).unwrap();
    let mut good = Client::connect(broker.address());
    good.create_topic();
    for garbage in [
        &[0xff; 64][..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0, 0, 0, 8, 0, 0, 0, 9, 1, 1, 1, 1],
    ] {
        let mut bad = Client::connect(broker.address());
        bad.0.write_all(garbage).unwrap();
        let mut rest = Vec::new();
        let _ = bad.0.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{garbage:?} got {rest:?}");
    }
    assert_eq!(good.produce(&[b"x"]).unwrap(), Ok(0));
}
