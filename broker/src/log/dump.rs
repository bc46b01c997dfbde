//! `odradek log dump`: prints what is in the files of a log.

use std::path::Path;

use odradek_core::log::offset_index::OffsetEntry;
use odradek_core::log::time_index::TimeEntry;
use odradek_core::metadata::record::MetadataRecord;
use odradek_core::record::batch::verify_crc;
use odradek_core::record::{BatchHeader, BatchRecords, Record};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::index_check::{self, Entry};
use super::layout::{self, FileKind, LogFiles, Target, unreadable};
use super::segment::{FileBatch, MAX_DECOMPRESSED_BYTES, SegmentReader};
use super::{DumpArgs, epochs};
use crate::escape::Printable;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::record_json::{Header, RecordContent};

/// The log of the cluster's metadata.
const METADATA_DIRECTORY: &str = "__cluster_metadata-0";

/// Runs the command.
pub(super) fn run(args: &DumpArgs) -> Result<(), Failure> {
    let target = layout::find(&args.path)?;
    let mut dump = Dump {
        args,
        out: Output::stdout(),
        left: args.count.unwrap_or(u64::MAX),
        damaged: false,
    };
    match target {
        Target::File(FileKind::Log) => dump.segment(&args.path)?,
        Target::File(FileKind::Index) => dump.offset_index(&args.path)?,
        Target::File(FileKind::TimeIndex) => dump.time_index(&args.path)?,
        Target::File(FileKind::Epochs) => dump.epochs(&args.path)?,
        Target::Logs(logs) => {
            for log in &logs {
                dump.log(log)?;
            }
        }
    }
    dump.out.flush()?;
    if dump.damaged {
        return Err(Failure::failed(format!(
            "damage was found; `odradek log verify {}` says what to do about it",
            args.path.display()
        )));
    }
    Ok(())
}

struct Dump<'a> {
    args: &'a DumpArgs,
    out: Output,
    /// How many batches or records may still be printed.
    left: u64,
    damaged: bool,
}

impl Dump<'_> {
    fn is_json(&self) -> bool {
        self.args.output == OutputFormat::Json
    }

    fn log(&mut self, files: &LogFiles) -> Result<(), Failure> {
        for (at, segment) in files.segments.iter().enumerate() {
            let next_base = files.segments.get(at + 1).map(|next| next.base);
            let is_before = |from| next_base.is_some_and(|next| next <= from);
            if self.args.from.is_some_and(is_before) {
                continue;
            }
            if self.left == 0 {
                break;
            }
            if let Some(path) = &segment.log {
                self.segment(path)?;
            }
        }
        Ok(())
    }

    fn segment(&mut self, path: &Path) -> Result<(), Failure> {
        let fail = |error| unreadable(path, &error);
        let mut reader = SegmentReader::open(path).map_err(fail)?;
        if !self.is_json() {
            self.out.line(format_args!("Dumping {}", path.display()))?;
            if let Some(base) = layout::base_offset(path) {
                self.out.line(format_args!("Log starting offset: {base}"))?;
            }
        }
        if let Some(from) = self.args.from {
            reader.skip_before(from).map_err(fail)?;
        }
        while self.left > 0
            && let Some(next) = reader.next().map_err(fail)?
        {
            match next {
                Ok(batch) => self.batch(path, &batch)?,
                Err(bad) => {
                    self.damaged = true;
                    let rest = reader.length() - bad.position;
                    if self.is_json() {
                        self.out.json(&json!({
                            "type": "damage", "file": path, "position": bad.position,
                            "problem": bad.error.to_string(), "unread_bytes": rest,
                        }))?;
                    } else {
                        self.out.line(format_args!(
                            "DAMAGE at position {}: {}; {rest} bytes from here on are unread",
                            bad.position, bad.error
                        ))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn batch(&mut self, path: &Path, batch: &FileBatch) -> Result<(), Failure> {
        let is_valid = verify_crc(&batch.bytes);
        self.damaged |= !is_valid;
        if self.is_json() {
            self.out.json(&JsonBatch {
                path,
                batch,
                is_valid,
            })?;
        } else {
            self.out.line(TextBatch { batch, is_valid })?;
        }
        if self.args.no_records {
            self.left -= 1;
            return Ok(());
        }
        // What fails the CRC is not read further: its lengths cannot be trusted.
        if !is_valid {
            return Ok(());
        }
        self.records(path, batch)
    }

    fn records(&mut self, path: &Path, batch: &FileBatch) -> Result<(), Failure> {
        let opened = BatchRecords::open(&batch.bytes, MAX_DECOMPRESSED_BYTES);
        let records = match &opened {
            Ok(records) => records,
            Err(error) => return self.bad_records(batch, &error.to_string()),
        };
        for record in records {
            if self.left == 0 {
                break;
            }
            let record = match record {
                Ok(record) => record,
                Err(error) => return self.bad_records(batch, &error.to_string()),
            };
            if self.args.from.is_some_and(|from| record.offset.0 < from) {
                continue;
            }
            self.left -= 1;
            let header = &batch.header;
            if self.is_json() {
                self.out.json(&JsonRecord {
                    header,
                    record,
                    metadata: metadata_of(path, &record),
                })?;
            } else {
                self.out.line(TextRecord {
                    header,
                    record,
                    metadata: metadata_of(path, &record),
                })?;
            }
        }
        Ok(())
    }

    fn bad_records(&mut self, batch: &FileBatch, problem: &str) -> Result<(), Failure> {
        self.damaged = true;
        if self.is_json() {
            return self.out.json(&json!({
                "type": "damage", "position": batch.position, "problem": problem,
            }));
        }
        let position = batch.position;
        self.out.line(format_args!(
            "DAMAGE in the batch at position {position}: {problem}"
        ))
    }

    fn offset_index(&mut self, path: &Path) -> Result<(), Failure> {
        self.index(path, |base, entry: &OffsetEntry| {
            let offset = base + i64::from(entry.relative_offset);
            let position = entry.position;
            (
                format!("offset: {offset} position: {position}"),
                json!({"type": "index", "offset": offset, "position": position}),
            )
        })
    }

    fn time_index(&mut self, path: &Path) -> Result<(), Failure> {
        self.index(path, |base, entry: &TimeEntry| {
            let offset = base + i64::from(entry.relative_offset);
            let timestamp = entry.timestamp;
            (
                format!("timestamp: {timestamp} offset: {offset}"),
                json!({"type": "timeindex", "timestamp": timestamp, "offset": offset}),
            )
        })
    }

    fn index<E: Entry>(
        &mut self,
        path: &Path,
        show: impl Fn(i64, &E) -> (String, serde_json::Value),
    ) -> Result<(), Failure> {
        let base = layout::base_offset(path).unwrap_or(0);
        let (entries, surplus) = index_check::read::<E>(path)
            .map_err(|why| Failure::failed(format!("cannot read {}: {why}", path.display())))?;
        if !self.is_json() {
            self.out.line(format_args!("Dumping {}", path.display()))?;
        }
        for entry in &entries {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let (text, json) = show(base, entry);
            if self.is_json() {
                self.out.json(&json)?;
            } else {
                self.out.line(text)?;
            }
        }
        if surplus > 0 {
            self.damaged = true;
            self.out.flush()?;
            return Err(Failure::failed(format!(
                "{}: {surplus} bytes follow the last entry; delete the file while the broker is \
                 stopped, and it is rebuilt",
                path.display()
            )));
        }
        Ok(())
    }

    fn epochs(&mut self, path: &Path) -> Result<(), Failure> {
        let entries = epochs::read(path)
            .map_err(|why| Failure::failed(format!("cannot read {}: {why}", path.display())))?;
        for (epoch, start_offset) in entries {
            if self.is_json() {
                self.out.json(&json!({
                    "type": "epoch", "epoch": epoch, "start_offset": start_offset,
                }))?;
            } else {
                self.out
                    .line(format_args!("epoch: {epoch} startOffset: {start_offset}"))?;
            }
        }
        Ok(())
    }
}

/// The sequence number of a record; they wrap from 2^31-1 to 0.
fn sequence_of(header: &BatchHeader, record: &Record<'_>) -> i64 {
    if header.base_sequence < 0 {
        return -1;
    }
    (i64::from(header.base_sequence) + record.offset.0 - header.base_offset.0) & 0x7fff_ffff
}

/// What a record of the metadata log says. Kafka's log of that name has records of another form,
/// which stay bytes.
fn metadata_of(segment: &Path, record: &Record<'_>) -> Option<MetadataRecord> {
    let is_metadata = segment
        .parent()
        .is_some_and(|dir| dir.ends_with(METADATA_DIRECTORY));
    MetadataRecord::decode(record.value.filter(|_| is_metadata)?).ok()
}

fn time_name(header: &BatchHeader) -> &'static str {
    if header.is_log_append_time() {
        "LogAppendTime"
    } else {
        "CreateTime"
    }
}

fn compression_name(header: &BatchHeader) -> &'static str {
    header
        .compression()
        .map_or("unknown", |compression| compression.name())
}

/// A batch as DumpLogSegments prints it.
struct TextBatch<'a> {
    batch: &'a FileBatch,
    is_valid: bool,
}

impl std::fmt::Display for TextBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let header = &self.batch.header;
        write!(
            f,
            "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} \
             producerId: {} producerEpoch: {} partitionLeaderEpoch: {} isTransactional: {} \
             isControl: {} position: {} {}: {} size: {} magic: 2 compresscodec: {} crc: {} \
             isvalid: {}",
            header.base_offset,
            header.last_offset(),
            header.record_count,
            header.base_sequence,
            header.last_sequence(),
            header.producer_id,
            header.producer_epoch,
            header.leader_epoch,
            header.is_transactional(),
            header.is_control(),
            self.batch.position,
            time_name(header),
            header.max_timestamp,
            header.size_bytes(),
            compression_name(header),
            header.crc,
            self.is_valid,
        )
    }
}

/// A record as DumpLogSegments prints it.
struct TextRecord<'a> {
    header: &'a BatchHeader,
    record: Record<'a>,
    metadata: Option<MetadataRecord>,
}

impl std::fmt::Display for TextRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let record = &self.record;
        let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
        write!(
            f,
            "| offset: {} {}: {} keySize: {} valueSize: {} sequence: {} headerKeys: [",
            record.offset,
            time_name(self.header),
            record.timestamp,
            size(record.key),
            size(record.value),
            sequence_of(self.header, record),
        )?;
        for (at, header) in record.headers.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}", Printable(header.key))?;
        }
        f.write_str("]")?;
        if let Some(key) = record.key {
            write!(f, " key: {}", Printable(key))?;
        }
        if let Some(metadata) = &self.metadata {
            write!(f, " metadata: {metadata:?}")
        } else if let Some(value) = record.value {
            write!(f, " payload: {}", Printable(value))
        } else {
            Ok(())
        }
    }
}

struct JsonBatch<'a> {
    path: &'a Path,
    batch: &'a FileBatch,
    is_valid: bool,
}

impl Serialize for JsonBatch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let header = &self.batch.header;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "batch")?;
        map.serialize_entry("file", self.path)?;
        map.serialize_entry("position", &self.batch.position)?;
        map.serialize_entry("size", &header.size_bytes())?;
        map.serialize_entry("base_offset", &header.base_offset.0)?;
        map.serialize_entry("last_offset", &header.last_offset().0)?;
        map.serialize_entry("record_count", &header.record_count)?;
        map.serialize_entry("leader_epoch", &header.leader_epoch.0)?;
        map.serialize_entry("timestamp_type", time_name(header))?;
        map.serialize_entry("base_timestamp", &header.base_timestamp)?;
        map.serialize_entry("max_timestamp", &header.max_timestamp)?;
        map.serialize_entry("producer_id", &header.producer_id)?;
        map.serialize_entry("producer_epoch", &header.producer_epoch)?;
        map.serialize_entry("base_sequence", &header.base_sequence)?;
        map.serialize_entry("is_transactional", &header.is_transactional())?;
        map.serialize_entry("is_control", &header.is_control())?;
        map.serialize_entry("compression", compression_name(header))?;
        map.serialize_entry("crc", &header.crc)?;
        map.serialize_entry("valid", &self.is_valid)?;
        map.end()
    }
}

struct JsonRecord<'a> {
    header: &'a BatchHeader,
    record: Record<'a>,
    metadata: Option<MetadataRecord>,
}

impl Serialize for JsonRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let headers: Vec<Header<'_>> = self
            .record
            .headers
            .iter()
            .map(|header| (header.key, header.value))
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "record")?;
        map.serialize_entry("offset", &self.record.offset.0)?;
        map.serialize_entry("timestamp", &self.record.timestamp)?;
        map.serialize_entry("is_control", &self.header.is_control())?;
        RecordContent {
            key: self.record.key,
            value: self.record.value,
            headers: &headers,
        }
        .serialize_into(&mut map)?;
        if let Some(metadata) = &self.metadata {
            map.serialize_entry("metadata", &format!("{metadata:?}"))?;
        }
        map.end()
    }
}
