//! A host in memory for tests and micro-benchmarks: a few verbs, and a disk that does at once what it
//! is told, or when it is told.

#![cfg_attr(not(test), allow(dead_code, missing_docs, clippy::unwrap_used))]

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::Broker;
use crate::effect::{Effect, Effects, FileOp, Part};
use crate::ids::{ConnectionId, FileId, FilePath, Position};
use crate::input::{Completion, DirEntry, DiskError, DiskErrorKind, Endpoint, Input, ReadFiles};
use crate::metadata::config::BrokerConfig;
use crate::read_job::ReadJob;
use crate::record::batch::Compression;
use crate::record::builder::{BatchBuilder, BatchFields};
use crate::record::compression::Tables;
use crate::request::{Codecs, prepare};
use crate::time::{Mono, Now, Wall};
use crate::wire::frame::{decode_response, encode_request};
use crate::wire::messages::Body;
use crate::wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use crate::wire::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use crate::wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use crate::wire::{Records, RequestHeader, ResponseBody};

/// The files of a data directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    files: BTreeMap<String, Vec<u8>>,
    directories: BTreeSet<String>,
}

/// A broker with its host.
pub struct Harness {
    pub broker: Broker,
    pub(crate) files: Files,
    pub now: Now,
    /// Flushes are carried out only when this is off.
    pub(crate) hold_flushes: bool,
    held_flushes: Vec<FileId>,
    /// Flushes that are carried out fail.
    pub(crate) fail_flushes: bool,
    /// Reads of groups fail.
    pub(crate) fail_group_reads: bool,
    open: BTreeMap<FileId, (String, u64)>,
    inbox: BTreeMap<ConnectionId, VecDeque<Bytes>>,
    pub(crate) closed: BTreeSet<ConnectionId>,
    sent: BTreeMap<ConnectionId, VecDeque<(crate::wire::ApiKey, i16)>>,
    last_connection: u64,
    pub(crate) fatal: Option<String>,
    pub(crate) started: bool,
    pub(crate) stopped: bool,
    pub(crate) reports: Vec<String>,
    codecs: Arc<Codecs>,
    /// Frames are prepared with the codecs of the start.
    pub(crate) ignores_codecs: bool,
}

impl Harness {
    /// A broker on an empty directory, started.
    pub fn start(config: BrokerConfig) -> Self {
        Self::start_on(Files::default(), config)
    }

    /// A broker on these files, started as far as it goes.
    pub(crate) fn start_on(files: Files, config: BrokerConfig) -> Self {
        let mut harness = Self {
            broker: Broker::new(config, [7; 32]),
            files,
            now: Now {
                mono: Mono(1_000_000_000),
                wall: Wall(1_700_000_000_000),
            },
            hold_flushes: false,
            held_flushes: Vec::new(),
            fail_flushes: false,
            fail_group_reads: false,
            open: BTreeMap::new(),
            inbox: BTreeMap::new(),
            closed: BTreeSet::new(),
            sent: BTreeMap::new(),
            last_connection: 0,
            fatal: None,
            started: false,
            stopped: false,
            reports: Vec::new(),
            codecs: Arc::default(),
            ignores_codecs: false,
        };
        harness.input(Input::Start);
        harness
    }

    /// What a process that is killed leaves behind: everything written.
    pub(crate) fn kill(self) -> Files {
        self.files
    }

    pub(crate) fn stop(&mut self) {
        self.input(Input::Stop);
    }

    pub fn connect(&mut self) -> ConnectionId {
        self.last_connection += 1;
        let connection = ConnectionId(self.last_connection);
        let local = Endpoint {
            host: "127.0.0.1".to_string(),
            port: 9092,
        };
        self.input(Input::Opened {
            connection,
            local,
            peer: "127.0.0.1".to_string(),
        });
        connection
    }

    pub(crate) fn disconnect(&mut self, connection: ConnectionId) {
        self.input(Input::Closed { connection });
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, connection: ConnectionId, version: i16, body: &impl Body) {
        let header = RequestHeader {
            api_version: version,
            ..RequestHeader::default()
        };
        let frame = self.flatten(&encode_request(&header, body).parts);
        self.sent
            .entry(connection)
            .or_default()
            .push_back((body.api(), version));
        self.send_raw(connection, frame.slice(4..));
    }

    pub(crate) fn send_raw(&mut self, connection: ConnectionId, frame: Bytes) {
        self.input(Input::Request {
            connection,
            request: Box::new(prepare(frame, &self.codecs, &mut Tables::default())),
        });
    }

    /// The next answer on a connection, if it is there.
    pub fn receive(&mut self, connection: ConnectionId) -> Option<ResponseBody> {
        let frame = self.inbox.get_mut(&connection)?.pop_front()?;
        let (api, version) = self.sent.get_mut(&connection)?.pop_front()?;
        Some(decode_response(api, version, frame.slice(4..)).unwrap().1)
    }

    /// Sends a request whose answer must be there at once.
    pub fn ask(
        &mut self,
        connection: ConnectionId,
        version: i16,
        body: &impl Body,
    ) -> ResponseBody {
        self.send(connection, version, body);
        self.receive(connection).expect("the answer is there")
    }

    pub fn create_topic(&mut self, connection: ConnectionId, name: &str) {
        self.metadata(connection, name);
    }

    pub(crate) fn metadata(&mut self, connection: ConnectionId, name: &str) -> MetadataResponse {
        let topic = MetadataRequestTopic {
            name: Some(name.into()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: Some(alloc::vec![topic]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        match self.ask(connection, 12, &request) {
            ResponseBody::Metadata(response) => response,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn send_produce(
        &mut self,
        connection: ConnectionId,
        topic: &str,
        acks: i16,
        values: &[&str],
    ) {
        self.send(connection, 9, &produce_request(topic, acks, batch(values)));
    }

    pub(crate) fn produced(
        &mut self,
        connection: ConnectionId,
    ) -> Option<PartitionProduceResponse> {
        match self.receive(connection)? {
            ResponseBody::Produce(mut response) => {
                response.responses.remove(0).partition_responses.pop()
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn produce(
        &mut self,
        connection: ConnectionId,
        topic: &str,
        values: &[&str],
    ) -> PartitionProduceResponse {
        self.send_produce(connection, topic, -1, values);
        self.produced(connection).expect("the answer is there")
    }

    pub(crate) fn send_fetch(
        &mut self,
        connection: ConnectionId,
        topic: &str,
        offset: i64,
        min_bytes: i32,
        max_wait_ms: i32,
    ) {
        self.send(
            connection,
            12,
            &fetch_request(topic, offset, min_bytes, max_wait_ms),
        );
    }

    pub(crate) fn fetched(&mut self, connection: ConnectionId) -> Option<FetchResponse> {
        match self.receive(connection)? {
            ResponseBody::Fetch(response) => Some(response),
            other => panic!("{other:?}"),
        }
    }

    /// The values of a partition from `offset` on that one fetch returns.
    pub(crate) fn fetch(
        &mut self,
        connection: ConnectionId,
        topic: &str,
        offset: i64,
    ) -> Vec<String> {
        self.send_fetch(connection, topic, offset, 0, 0);
        values_of(&self.fetched(connection).expect("the answer is there"))
    }

    /// Lets time pass; deadlines on the way are met.
    pub fn advance(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        while let Some(at) = self.broker.next_deadline().filter(|at| *at <= end) {
            self.set_time(at);
            self.input(Input::Deadline);
        }
        self.set_time(end);
    }

    fn set_time(&mut self, mono: Mono) {
        let at = mono.max(self.now.mono);
        self.now.wall.0 += at.ms_since(self.now.mono) as i64;
        self.now.mono = at;
    }

    /// Carries out the flushes that were held.
    pub(crate) fn complete_flushes(&mut self) {
        for file in core::mem::take(&mut self.held_flushes) {
            let completion = self.flush(file);
            self.input(Input::Disk(completion));
        }
    }

    fn flush(&self, file: FileId) -> Completion {
        let up_to = Position(self.open.get(&file).map_or(0, |(_, written)| *written));
        if self.fail_flushes {
            let path = FilePath::from("the disk");
            let detail = String::new();
            let error = DiskError {
                kind: DiskErrorKind::Io,
                path,
                detail,
            };
            return Completion::FlushFailed { file, error };
        }
        Completion::Flushed { file, up_to }
    }

    /// Handles an input, and what its effects lead to, until nothing is left.
    pub fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        let mut out = Effects::new();
        while let Some(input) = inputs.pop_front() {
            self.broker.handle(self.now, input, &mut out);
            let effects: Vec<Effect> = out.drain().collect();
            for effect in effects {
                if let Some(completion) = self.carry_out(effect) {
                    inputs.push_back(Input::Disk(completion));
                }
            }
        }
    }

    /// Does what an effect asks for.
    pub fn carry_out(&mut self, effect: Effect) -> Option<Completion> {
        match effect {
            Effect::Respond {
                connection,
                response,
            } => {
                if !response.is_empty() {
                    let frame = self.flatten(&response.parts);
                    self.inbox.entry(connection).or_default().push_back(frame);
                }
                None
            }
            Effect::Close { connection } => {
                self.closed.insert(connection);
                None
            }
            Effect::Open { file, path, length } => {
                self.open
                    .insert(file, (path.as_str().to_string(), length.0));
                None
            }
            Effect::Write {
                file,
                position,
                data,
            } => {
                let (path, written) = self.open.get_mut(&file).expect("an open file");
                assert_eq!(position.0, *written, "writes are contiguous");
                *written += data.len() as u64;
                let content = self.files.files.get_mut(path).expect("the file is there");
                content.truncate(position.0 as usize);
                content.extend_from_slice(&data.header);
                content.extend_from_slice(&data.records);
                Some(Completion::Written {
                    file,
                    up_to: Position(*written),
                })
            }
            Effect::Flush { file } if self.hold_flushes => {
                self.held_flushes.push(file);
                None
            }
            Effect::Flush { file } => Some(self.flush(file)),
            Effect::Manage { operation, op } => {
                let result = self.manage(op);
                Some(Completion::Managed { operation, result })
            }
            Effect::Read { operation, job } => {
                let result = match *job {
                    ReadJob::LoadGroups(_) if self.fail_group_reads => Err(DiskError {
                        kind: DiskErrorKind::Io,
                        path: FilePath::from("the disk"),
                        detail: String::new(),
                    }),
                    _ => job.run(&mut self.files),
                };
                Some(Completion::Read { operation, result })
            }
            Effect::Report(report) => {
                self.reports.push(report.to_string());
                None
            }
            Effect::Codecs(codecs) => {
                if !self.ignores_codecs {
                    self.codecs = codecs;
                }
                None
            }
            Effect::Started => {
                self.started = true;
                None
            }
            Effect::Stopped => {
                self.stopped = true;
                None
            }
            Effect::Fatal { message } => {
                self.fatal = Some(message);
                None
            }
        }
    }

    fn manage(&mut self, op: FileOp) -> Result<(), DiskError> {
        let files = &mut self.files;
        match op {
            FileOp::CreateDir(path) => {
                files.directories.insert(path.as_str().to_string());
            }
            FileOp::WriteFile { path, bytes } => {
                files
                    .files
                    .insert(path.as_str().to_string(), bytes.to_vec());
            }
            FileOp::WriteAt {
                path,
                position,
                bytes,
            } => {
                let content = files
                    .files
                    .get_mut(path.as_str())
                    .ok_or_else(|| missing(&path))?;
                let end = position.0 as usize + bytes.len();
                content.resize(content.len().max(end), 0);
                content[position.0 as usize..end].copy_from_slice(&bytes);
            }
            FileOp::SetLength { path, length } => {
                let content = files
                    .files
                    .get_mut(path.as_str())
                    .ok_or_else(|| missing(&path))?;
                content.resize(length.0 as usize, 0);
            }
            FileOp::Rename { from, to } => files.rename(from.as_str(), to.as_str()),
            FileOp::RemoveFile(path) => {
                files.files.remove(path.as_str());
            }
            FileOp::RemoveTree(path) => {
                let below = alloc::format!("{path}/");
                files.directories.remove(path.as_str());
                files.files.retain(|name, _| !name.starts_with(&below));
            }
            FileOp::Truncate { file, length } => {
                if let Some((path, written)) = self.open.get_mut(&file) {
                    *written = length.0;
                    if let Some(content) = files.files.get_mut(path) {
                        content.resize(length.0 as usize, 0);
                    }
                }
            }
            FileOp::Close(file) => {
                self.open.remove(&file);
            }
            FileOp::SyncFile(_) | FileOp::SyncDir(_) | FileOp::Rewrite { .. } => {}
        }
        Ok(())
    }

    fn flatten(&self, parts: &[Part]) -> Bytes {
        let mut frame = BytesMut::new();
        for part in parts {
            match part {
                Part::Bytes(bytes) => frame.extend_from_slice(bytes),
                Part::File(range) => {
                    let (path, _) = self.open.get(&range.file).expect("an open file");
                    let from = range.position.0 as usize;
                    frame.extend_from_slice(
                        &self.files.files[path][from..from + range.length as usize],
                    );
                }
            }
        }
        frame.freeze()
    }
}

impl Files {
    pub(crate) fn write(&mut self, path: &str, content: &[u8]) {
        self.files.insert(path.to_string(), content.to_vec());
    }

    pub(crate) fn read(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }

    pub(crate) fn create_dir(&mut self, path: &str) {
        self.directories.insert(path.to_string());
    }

    pub(crate) fn directories(&self) -> Vec<&str> {
        self.directories.iter().map(String::as_str).collect()
    }

    fn rename(&mut self, from: &str, to: &str) {
        let below = alloc::format!("{from}/");
        if self.directories.remove(from) {
            self.directories.insert(to.to_string());
        }
        let moved: Vec<String> = self
            .files
            .keys()
            .filter(|name| *name == from || name.starts_with(&below))
            .cloned()
            .collect();
        for name in moved {
            let content = self.files.remove(&name).unwrap();
            self.files.insert(name.replacen(from, to, 1), content);
        }
    }
}

fn missing(path: &FilePath) -> DiskError {
    DiskError {
        kind: DiskErrorKind::NotFound,
        path: path.clone(),
        detail: String::new(),
    }
}

impl ReadFiles for Files {
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError> {
        let content = self.files.get(path.as_str()).ok_or_else(|| missing(path))?;
        let rest = content.get(position.0 as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError> {
        let content = self.files.get(path.as_str()).ok_or_else(|| missing(path))?;
        Ok(Position(content.len() as u64))
    }

    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError> {
        let is_root = *directory == FilePath::root();
        if !is_root && !self.directories.contains(directory.as_str()) {
            return Err(missing(directory));
        }
        let below = if is_root {
            String::new()
        } else {
            alloc::format!("{directory}/")
        };
        let name_in = |path: &str| {
            path.strip_prefix(&below)
                .filter(|rest| !rest.contains('/'))
                .map(ToString::to_string)
        };
        let files = self.files.iter().filter_map(|(path, content)| {
            let length = Some(Position(content.len() as u64));
            Some(DirEntry {
                name: name_in(path)?,
                length,
            })
        });
        let directories = self.directories.iter().filter_map(|path| {
            Some(DirEntry {
                name: name_in(path)?,
                length: None,
            })
        });
        let mut entries: Vec<DirEntry> = files.chain(directories).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

/// A batch with these values.
pub(crate) fn batch(values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(1 << 20);
    for value in values {
        assert!(builder.append(1_700_000_000_000, Some(b"key"), Some(value.as_bytes()), &[]));
    }
    builder.build(BatchFields {
        compression: Compression::None,
        ..BatchFields::default()
    })
}

/// A produce of one partition.
pub fn produce_request(topic: &str, acks: i16, records: Bytes) -> ProduceRequest {
    let partition = PartitionProduceData {
        index: 0,
        records: Some(Records::Bytes(records)),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: topic.into(),
        partition_data: alloc::vec![partition],
        ..Default::default()
    };
    ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: alloc::vec![topic],
        ..Default::default()
    }
}

/// A fetch from one partition.
pub fn fetch_request(topic: &str, offset: i64, min_bytes: i32, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition {
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic: topic.into(),
        partitions: alloc::vec![partition],
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms,
        min_bytes,
        max_bytes: 1 << 20,
        topics: alloc::vec![topic],
        ..Default::default()
    }
}

/// The values in the first partition of a fetch's answer.
pub(crate) fn values_of(response: &FetchResponse) -> Vec<String> {
    let partition = &response.responses[0].partitions[0];
    assert!(!partition.error_code.is_error(), "{partition:?}");
    let Some(Records::Bytes(mut bytes)) = partition.records.clone() else {
        return Vec::new();
    };
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let header = crate::record::batch::BatchHeader::parse(&bytes).unwrap();
        let batch = bytes.split_to(header.size_bytes() as usize);
        assert!(crate::record::batch::verify_crc(&batch));
        let records = crate::record::records::BatchRecords::open(&batch, 1 << 24).unwrap();
        for record in records.iter() {
            let value = record.unwrap().value.unwrap().to_vec();
            values.push(String::from_utf8(value).unwrap());
        }
    }
    values
}

/// Produces a batch and waits for the answer.
pub(crate) fn send_batch(
    host: &mut Harness,
    connection: ConnectionId,
    topic: &str,
    batch: Bytes,
) -> PartitionProduceResponse {
    host.send(connection, 9, &produce_request(topic, -1, batch));
    host.produced(connection).expect("the answer is there")
}

/// The bytes of the batches in the answer to a fetch of one partition.
pub(crate) fn produced_batch(response: &FetchResponse) -> Bytes {
    match &response.responses[0].partitions[0].records {
        Some(Records::Bytes(bytes)) => bytes.clone(),
        other => panic!("{other:?}"),
    }
}
