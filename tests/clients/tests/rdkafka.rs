//! `librdkafka`, the client under most languages' clients, through Rust: 100,000 odd records come
//! back the same, plain and with each compression, and its admin calls do what they say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use odradek_client_tests::dump_log::judge;
use odradek_client_tests::program::{Options, Program, is_clean_stop};
use odradek_client_tests::records::{TestRecord, odd_record};
use odradek_client_tests::work_dir::WorkDir;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

const RECORDS: u64 = 100_000;
const PARTITIONS: i32 = 3;
const FIRST_TIMESTAMP_MS: i64 = 1_700_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn records_come_back_the_same() {
    round_trip("none");
}

#[test]
fn records_come_back_the_same_gzip() {
    round_trip("gzip");
}

#[test]
fn records_come_back_the_same_snappy() {
    round_trip("snappy");
}

#[test]
fn records_come_back_the_same_lz4() {
    round_trip("lz4");
}

#[test]
fn records_come_back_the_same_zstd() {
    round_trip("zstd");
}

fn round_trip(codec: &'static str) {
    let work = WorkDir::new(&format!("rdkafka-{codec}"));
    let options = Options::new(work.path()).set("log.segment.bytes", 4 << 20);
    let program = Program::start(&options).expect("the program starts");
    let stored_codec = program.codec_of_librdkafka(codec);
    let client = Client {
        bootstrap: program.address().to_string(),
    };
    client.create_topic("odd", PARTITIONS);

    client.produce_all("odd", codec);
    client.read_all_back("odd");
    client.look_up_offsets("odd");

    assert!(is_clean_stop(program.stop()));
    let verdict = judge(&options.data_dir);
    assert_eq!(verdict.faults, Vec::<String>::new());
    for partition in 0..PARTITIONS {
        let folder = format!("odd-{partition}");
        assert!(
            verdict.is_compressed_with(&folder, stored_codec),
            "sent and stored as {:?}",
            verdict.codecs
        );
    }
}

#[test]
fn admin_calls_do_what_they_say() {
    let work = WorkDir::new("rdkafka-admin");
    let options = Options::new(work.path()).set("auto.create.topics.enable", false);
    let program = Program::start(&options).expect("the program starts");
    let client = Client {
        bootstrap: program.address().to_string(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("tokio starts");
    runtime.block_on(client.administer());
    assert!(is_clean_stop(program.stop()));
}

/// What librdkafka is told about the program.
struct Client {
    bootstrap: String,
}

/// Record `index` goes to this partition and is the next one there.
fn partition_of(index: u64) -> i32 {
    // Uneven on purpose: a partition of its own size each.
    if index.is_multiple_of(7) {
        2
    } else {
        (index % 2) as i32
    }
}

/// By partition, the records in the order in which they were sent.
fn sent() -> BTreeMap<i32, Vec<u64>> {
    let mut sent: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for index in 0..RECORDS {
        sent.entry(partition_of(index)).or_default().push(index);
    }
    sent
}

/// Stops the test at the first record that is not delivered.
struct MustDeliver;

impl ClientContext for MustDeliver {}

impl ProducerContext for MustDeliver {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _)) = result {
            panic!("a record was not delivered: {error}");
        }
    }
}

impl Client {
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config()
            .create()
            .expect("librdkafka makes an admin client")
    }

    fn consumer(&self) -> BaseConsumer {
        // The crate assigns partitions only to a consumer that names a group; no coordinator is
        // asked for anything.
        self.config()
            .set("group.id", "unused")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "false")
            .create()
            .expect("librdkafka makes a consumer")
    }

    fn create_topic(&self, name: &str, partitions: i32) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("tokio starts");
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let created = runtime.block_on(self.admin().create_topics([&topic], &admin_options()));
        assert_eq!(
            created.expect("CreateTopics is answered"),
            [Ok(name.to_owned())]
        );
    }

    fn produce_all(&self, topic: &str, codec: &str) {
        let producer: BaseProducer<MustDeliver> = self
            .config()
            .set("acks", "all")
            .set("compression.type", codec)
            .set("linger.ms", "20")
            .create_with_context(MustDeliver)
            .expect("librdkafka makes a producer");
        for index in 0..RECORDS {
            let TestRecord {
                key,
                value,
                headers,
            } = odd_record(2, index);
            let mut sent_headers = OwnedHeaders::new();
            for (name, value) in &headers {
                sent_headers = sent_headers.insert(Header {
                    key: name,
                    value: value.as_ref(),
                });
            }
            let mut record = BaseRecord::<[u8], [u8]>::to(topic)
                .partition(partition_of(index))
                .timestamp(FIRST_TIMESTAMP_MS + index as i64)
                .headers(sent_headers);
            record.key = key.as_deref();
            record.payload = value.as_deref();
            while let Err((error, returned)) = producer.send(record) {
                assert_eq!(
                    error.rdkafka_error_code(),
                    Some(RDKafkaErrorCode::QueueFull),
                    "{error}"
                );
                producer.poll(Duration::from_millis(10));
                record = returned;
            }
        }
        producer.flush(TIMEOUT).expect("everything is delivered");
    }

    fn read_all_back(&self, topic: &str) {
        let sent = sent();
        let consumer = self.consumer();
        let mut assignment = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            assignment
                .add_partition_offset(topic, partition, Offset::Beginning)
                .expect("an offset can be asked for");
        }
        consumer
            .assign(&assignment)
            .expect("partitions can be assigned");

        let mut next = BTreeMap::from_iter((0..PARTITIONS).map(|partition| (partition, 0)));
        let deadline = Instant::now() + TIMEOUT;
        for _ in 0..RECORDS {
            let message = loop {
                assert!(
                    Instant::now() < deadline,
                    "records are missing; next offsets: {next:?}"
                );
                match consumer.poll(Duration::from_millis(200)) {
                    Some(Ok(message)) => break message,
                    Some(Err(error)) => panic!("the consumer says: {error}"),
                    None => {}
                }
            };
            let position = next
                .get_mut(&message.partition())
                .expect("a partition that was assigned");
            assert_eq!(message.offset(), *position as i64, "offsets are dense");
            let index = sent[&message.partition()][*position];
            assert_eq!(record_of(&message), odd_record(2, index), "record {index}");
            assert_eq!(
                message.timestamp().to_millis(),
                Some(FIRST_TIMESTAMP_MS + index as i64)
            );
            *position += 1;
        }
        assert!(
            consumer.poll(Duration::from_millis(300)).is_none(),
            "nothing was written twice"
        );
    }

    /// Watermarks, and offsets for times: before all, at a record, between, and after all.
    fn look_up_offsets(&self, topic: &str) {
        let consumer = self.consumer();
        for (partition, sent) in sent() {
            let watermarks = consumer
                .fetch_watermarks(topic, partition, TIMEOUT)
                .expect("watermarks are answered");
            assert_eq!(watermarks, (0, sent.len() as i64));
            for (asked_index, expected) in [
                (0, Offset::Offset(0)),
                (sent[1], Offset::Offset(1)),
                (
                    sent[sent.len() / 2] - 1,
                    Offset::Offset(first_at_or_after(&sent, sent[sent.len() / 2] - 1)),
                ),
                (
                    RECORDS - 1,
                    Offset::Offset(first_at_or_after(&sent, RECORDS - 1)),
                ),
                (RECORDS, Offset::End),
            ] {
                let mut times = TopicPartitionList::new();
                let time = Offset::Offset(FIRST_TIMESTAMP_MS + asked_index as i64);
                times
                    .add_partition_offset(topic, partition, time)
                    .expect("a time can be asked for");
                let offsets = consumer
                    .offsets_for_times(times, TIMEOUT)
                    .expect("offsets are answered");
                let found = offsets
                    .find_partition(topic, partition)
                    .expect("the partition is in the answer")
                    .offset();
                let expected = if expected == Offset::Offset(sent.len() as i64) {
                    Offset::End
                } else {
                    expected
                };
                assert_eq!(
                    found, expected,
                    "{topic}-{partition} at the time of record {asked_index}"
                );
            }
        }
    }

    async fn administer(&self) {
        let admin = self.admin();
        let options = admin_options();

        // Create: with configs, twice the same name, a name that cannot be, validation only.
        let topic =
            NewTopic::new("managed", 2, TopicReplication::Fixed(1)).set("retention.ms", "86400000");
        let impossible = NewTopic::new("no/slashes", 1, TopicReplication::Fixed(1));
        let created = admin
            .create_topics([&topic, &impossible], &options)
            .await
            .expect("CreateTopics is answered");
        assert_eq!(created[0], Ok("managed".to_owned()));
        assert_eq!(
            created[1],
            Err(("no/slashes".to_owned(), RDKafkaErrorCode::InvalidTopic))
        );
        let again = admin
            .create_topics([&topic], &options)
            .await
            .expect("CreateTopics is answered");
        assert_eq!(
            again,
            [Err((
                "managed".to_owned(),
                RDKafkaErrorCode::TopicAlreadyExists
            ))]
        );
        let only_asked = NewTopic::new("only-asked", 1, TopicReplication::Fixed(1));
        let validated = admin
            .create_topics([&only_asked], &admin_options().validate_only(true))
            .await;
        assert_eq!(
            validated.expect("CreateTopics is answered"),
            [Ok("only-asked".to_owned())]
        );
        self.expect_partitions("managed", Some(2));
        self.expect_partitions("only-asked", None);

        // More partitions, and not fewer.
        let more = admin
            .create_partitions([&NewPartitions::new("managed", 5)], &options)
            .await;
        assert_eq!(
            more.expect("CreatePartitions is answered"),
            [Ok("managed".to_owned())]
        );
        self.expect_partitions("managed", Some(5));
        let fewer = admin
            .create_partitions([&NewPartitions::new("managed", 3)], &options)
            .await;
        let refused = [Err((
            "managed".to_owned(),
            RDKafkaErrorCode::InvalidPartitions,
        ))];
        assert_eq!(fewer.expect("CreatePartitions is answered"), refused);

        // Configs: as created, as altered, and a default.
        assert_eq!(
            self.config_of("managed", "retention.ms").await,
            Some("86400000".to_owned())
        );
        let resource = ResourceSpecifier::Topic("managed");
        let alter = AlterConfig::new(resource)
            .set("retention.ms", "43200000")
            .set("segment.bytes", "2097152");
        let altered = admin
            .alter_configs([&alter], &options)
            .await
            .expect("AlterConfigs is answered");
        assert!(altered[0].is_ok(), "{altered:?}");
        assert_eq!(
            self.config_of("managed", "retention.ms").await,
            Some("43200000".to_owned())
        );
        assert_eq!(
            self.config_of("managed", "segment.bytes").await,
            Some("2097152".to_owned())
        );
        assert_eq!(
            self.config_of("managed", "cleanup.policy").await,
            Some("delete".to_owned())
        );
        let nonsense = AlterConfig::new(resource).set("retention.ms", "a week");
        // The crate has no way to show the error of one resource, so only its effect can be seen.
        admin
            .alter_configs([&nonsense], &options)
            .await
            .expect("AlterConfigs is answered");
        assert_eq!(
            self.config_of("managed", "retention.ms").await,
            Some("43200000".to_owned())
        );

        // DeleteRecords: up to an offset, up to the end, beyond the end.
        let producer: BaseProducer<MustDeliver> = self
            .config()
            .create_with_context(MustDeliver)
            .expect("librdkafka makes a producer");
        for _ in 0..10 {
            let record = BaseRecord::<(), str>::to("managed")
                .partition(0)
                .payload("a record");
            producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("the queue has room");
        }
        producer.flush(TIMEOUT).expect("everything is delivered");
        assert_eq!(
            self.delete_records(&admin, Offset::Offset(4)).await,
            Ok(Offset::Offset(4))
        );
        self.expect_watermarks((4, 10));
        assert_eq!(
            self.delete_records(&admin, Offset::Offset(11)).await,
            Err(RDKafkaErrorCode::OffsetOutOfRange)
        );
        assert_eq!(
            self.delete_records(&admin, Offset::End).await,
            Ok(Offset::Offset(10))
        );
        self.expect_watermarks((10, 10));

        // Delete: what is there, and what is not.
        let deleted = admin
            .delete_topics(&["managed", "unknown"], &options)
            .await
            .expect("DeleteTopics is answered");
        assert_eq!(deleted[0], Ok("managed".to_owned()));
        assert_eq!(
            deleted[1],
            Err((
                "unknown".to_owned(),
                RDKafkaErrorCode::UnknownTopicOrPartition
            ))
        );
        self.expect_partitions("managed", None);
    }

    async fn delete_records(
        &self,
        admin: &AdminClient<DefaultClientContext>,
        before: Offset,
    ) -> Result<Offset, RDKafkaErrorCode> {
        let mut offsets = TopicPartitionList::new();
        offsets
            .add_partition_offset("managed", 0, before)
            .expect("an offset can be asked for");
        let answer = admin
            .delete_records(&offsets, &admin_options())
            .await
            .expect("DeleteRecords is answered");
        let partition = answer
            .find_partition("managed", 0)
            .expect("the partition is in the answer");
        match partition.error() {
            Ok(()) => Ok(partition.offset()),
            Err(KafkaError::OffsetFetch(code)) => Err(code),
            Err(other) => panic!("DeleteRecords: {other}"),
        }
    }

    async fn config_of(&self, topic: &str, key: &str) -> Option<String> {
        let resource = ResourceSpecifier::Topic(topic);
        let described = self
            .admin()
            .describe_configs([&resource], &admin_options())
            .await;
        let described = described.expect("DescribeConfigs is answered");
        let resource = described[0].as_ref().expect("the topic is known");
        resource
            .get(key)
            .unwrap_or_else(|| panic!("{key} is described"))
            .value
            .clone()
    }

    /// Waits until a topic has so many partitions, or does not exist: only Kafka's brokers take a
    /// moment to know.
    fn expect_partitions(&self, topic: &str, expected: Option<usize>) {
        let consumer = self.consumer();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let metadata = consumer
                .fetch_metadata(None, TIMEOUT)
                .expect("metadata is answered");
            assert_eq!(metadata.brokers().len(), 1);
            let found = metadata
                .topics()
                .iter()
                .find(|found| found.name() == topic)
                .map(|found| {
                    assert!(found.error().is_none());
                    found.partitions().len()
                });
            if found == expected {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{topic} has {found:?} partitions instead of {expected:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn expect_watermarks(&self, expected: (i64, i64)) {
        let watermarks = self
            .consumer()
            .fetch_watermarks("managed", 0, TIMEOUT)
            .expect("watermarks are answered");
        assert_eq!(watermarks, expected);
    }
}

fn admin_options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(TIMEOUT))
        .operation_timeout(Some(Duration::from_secs(30)))
}

/// The position in the partition of the first record that was sent at `index` or later.
fn first_at_or_after(sent: &[u64], index: u64) -> i64 {
    sent.partition_point(|sent| *sent < index) as i64
}

fn record_of(message: &BorrowedMessage<'_>) -> TestRecord {
    let headers = message.headers().map_or(Vec::new(), |headers| {
        headers
            .iter()
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect()
    });
    TestRecord {
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}
