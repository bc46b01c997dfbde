//! A client that sends frames and knows no mercy: no retries, no back-off, and an answer out of
//! order is a failure.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use odradek_core::effect::Part;
use odradek_core::ids::TopicId;
use odradek_core::wire::frame::{decode_response, encode_request};
use odradek_core::wire::messages::Body;
use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use odradek_core::wire::messages::fetch::{
    FetchPartition, FetchRequest, FetchTopic, PartitionData,
};
use odradek_core::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic,
};
use odradek_core::wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse,
};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ApiKey, ErrorCode, Records, RequestHeader, ResponseBody};

/// Longer than any answer takes that is not asked to wait.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const PRODUCE: i16 = 9;
pub(crate) const FETCH: i16 = 12;
pub(crate) const METADATA: i16 = 12;
pub(crate) const LIST_OFFSETS: i16 = 7;
pub(crate) const CREATE_TOPICS: i16 = 7;

/// A connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    client_id: String,
    last_correlation_id: i32,
    /// What was asked and not answered: correlation id, API, version.
    asked: VecDeque<(i32, ApiKey, i16)>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::named(address, "black-box")
    }

    /// A client that calls itself so.
    pub(crate) fn named(address: SocketAddr, client_id: &str) -> Self {
        Self::try_named(address, client_id).unwrap()
    }

    pub(crate) fn try_named(address: SocketAddr, client_id: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            client_id: client_id.to_owned(),
            last_correlation_id: 0,
            asked: VecDeque::new(),
        })
    }

    /// This end's address, as the broker's log has it.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) {
        self.stream.set_read_timeout(Some(timeout)).unwrap();
        self.stream.set_write_timeout(Some(timeout)).unwrap();
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that nothing more comes from this side.
    pub(crate) fn shut_down_sending(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Reads until the broker closes; how much came. `Err` if it does not close in time.
    pub(crate) fn drain(&mut self) -> io::Result<usize> {
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(count) => total += count,
                // Closed while bytes of ours were unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(total),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request whose answer is taken later.
    pub(crate) fn send(&mut self, version: i16, body: &impl Body) -> io::Result<()> {
        let frame = self.frame(version, body);
        self.asked
            .push_back((self.last_correlation_id, body.api(), version));
        self.stream.write_all(&frame)
    }

    /// Sends a request that has no answer.
    pub(crate) fn send_unanswered(&mut self, version: i16, body: &impl Body) -> io::Result<()> {
        let frame = self.frame(version, body);
        self.stream.write_all(&frame)
    }

    fn frame(&mut self, version: i16, body: &impl Body) -> Bytes {
        self.last_correlation_id += 1;
        frame(version, self.last_correlation_id, &self.client_id, body)
    }

    /// A frame without its length, whatever it holds.
    pub(crate) fn receive_frame(&mut self) -> io::Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }

    /// The answer to the oldest request.
    pub(crate) fn receive(&mut self) -> io::Result<ResponseBody> {
        let frame = self.receive_frame()?;
        let (expected, api, version) = self.asked.pop_front().expect("something was asked");
        let (correlation_id, body) = decode_response(api, version, frame).unwrap();
        assert_eq!(correlation_id, expected, "answers come in order");
        Ok(body)
    }

    /// How many answers are outstanding.
    pub(crate) fn outstanding(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn ask(&mut self, version: i16, body: &impl Body) -> io::Result<ResponseBody> {
        self.send(version, body)?;
        self.receive()
    }

    /// Creates a topic with these configs; its id.
    #[track_caller]
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> TopicId {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: name.into(),
                num_partitions: partitions,
                replication_factor: 1,
                configs: configs
                    .iter()
                    .map(|(name, value)| CreatableTopicConfig {
                        name: (*name).into(),
                        value: Some((*value).into()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        match self.ask(CREATE_TOPICS, &request).unwrap() {
            ResponseBody::CreateTopics(response) => {
                let topic = &response.topics[0];
                assert_eq!(topic.error_code, ErrorCode::NONE, "{topic:?}");
                topic.topic_id
            }
            other => panic!("{other:?}"),
        }
    }

    /// What Metadata says of these topics, without creating any.
    pub(crate) fn metadata(&mut self, topics: &[&str]) -> MetadataResponse {
        let topic = |name: &&str| MetadataRequestTopic {
            name: Some((*name).into()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: Some(topics.iter().map(topic).collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        match self.ask(METADATA, &request).unwrap() {
            ResponseBody::Metadata(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// The leader epoch of a topic's first partition.
    pub(crate) fn leader_epoch(&mut self, topic: &str) -> i32 {
        self.metadata(&[topic]).topics[0].partitions[0].leader_epoch
    }

    /// Appends a batch, acks=all; the base offset.
    pub(crate) fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> Result<i64, ErrorCode> {
        self.send(PRODUCE, &produce_request(topic, -1, &[(partition, batch)]))
            .unwrap();
        let answer = self.produced().unwrap().remove(0);
        match answer.error_code {
            ErrorCode::NONE => Ok(answer.base_offset),
            error => Err(error),
        }
    }

    /// The answer to a produce request: what became of each partition, in the order of the answer.
    pub(crate) fn produced(&mut self) -> io::Result<Vec<PartitionProduceResponse>> {
        match self.receive()? {
            ResponseBody::Produce(response) => Ok(response
                .responses
                .into_iter()
                .flat_map(|topic| topic.partition_responses)
                .collect()),
            other => panic!("{other:?}"),
        }
    }

    /// One fetch of one partition.
    pub(crate) fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        self.try_fetch(topic, partition, offset, 0).unwrap()
    }

    /// One fetch, which waits so long for a byte.
    pub(crate) fn try_fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait_ms: i32,
    ) -> io::Result<PartitionData> {
        self.send(FETCH, &fetch_request(topic, partition, offset, max_wait_ms))?;
        self.fetched()
    }

    pub(crate) fn fetched(&mut self) -> io::Result<PartitionData> {
        match self.receive()? {
            ResponseBody::Fetch(mut response) => {
                assert_eq!(response.error_code, ErrorCode::NONE);
                Ok(response.responses.remove(0).partitions.remove(0))
            }
            other => panic!("{other:?}"),
        }
    }

    /// All whole batches of a partition from `offset` to the high watermark, one behind the other.
    #[track_caller]
    pub(crate) fn fetch_all(&mut self, topic: &str, partition: i32, mut offset: i64) -> Vec<Bytes> {
        let mut batches = Vec::new();
        loop {
            let found = self.fetch(topic, partition, offset);
            assert_eq!(found.error_code, ErrorCode::NONE, "{topic}-{partition}");
            let Some(Records::Bytes(bytes)) = found.records else {
                panic!("no records in {found:?}");
            };
            let before = batches.len();
            super::records::split(bytes, &mut batches);
            match batches.last() {
                Some(last) if batches.len() > before => {
                    offset = super::records::header(last).next_offset().0;
                }
                _ => {
                    assert_eq!(offset, found.high_watermark, "{topic}-{partition}");
                    return batches;
                }
            }
        }
    }

    /// One look-up of ListOffsets: by time, or -1 for the end, -2 for the start.
    pub(crate) fn list_offset(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> ListOffsetsPartitionResponse {
        self.try_list_offset(topic, partition, timestamp).unwrap()
    }

    /// The same, of a broker that may be gone.
    pub(crate) fn try_list_offset(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> io::Result<ListOffsetsPartitionResponse> {
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: topic.into(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: partition,
                    timestamp,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        match self.ask(LIST_OFFSETS, &request)? {
            ResponseBody::ListOffsets(mut response) => Ok(response.topics[0].partitions.remove(0)),
            other => panic!("{other:?}"),
        }
    }
}

/// A whole request frame, its length first.
pub(crate) fn frame(version: i16, correlation_id: i32, client_id: &str, body: &impl Body) -> Bytes {
    let header = RequestHeader {
        api_version: version,
        correlation_id,
        client_id: Some(client_id.into()),
        ..Default::default()
    };
    let mut frame = BytesMut::new();
    for part in encode_request(&header, body).parts {
        match part {
            Part::Bytes(bytes) => frame.extend_from_slice(&bytes),
            Part::File(range) => panic!("a request names no file: {range:?}"),
        }
    }
    frame.freeze()
}

/// A produce request with a batch for each of these partitions.
pub(crate) fn produce_request(
    topic: &str,
    acks: i16,
    partitions: &[(i32, Bytes)],
) -> ProduceRequest {
    let data = |(index, batch): &(i32, Bytes)| PartitionProduceData {
        index: *index,
        records: Some(Records::Bytes(batch.clone())),
        ..Default::default()
    };
    ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            partition_data: partitions.iter().map(data).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A fetch of one partition.
pub(crate) fn fetch_request(
    topic: &str,
    partition: i32,
    offset: i64,
    max_wait_ms: i32,
) -> FetchRequest {
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 8 << 20,
        topics: vec![FetchTopic {
            topic: topic.into(),
            partitions: vec![FetchPartition {
                partition,
                fetch_offset: offset,
                partition_max_bytes: 4 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}
