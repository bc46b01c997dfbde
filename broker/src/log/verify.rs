//! `odradek log verify`: checks a log's files against themselves and each other.

use std::path::Path;

use odradek_core::log::offset_index::OffsetEntry;
use odradek_core::log::time_index::TimeEntry;
use odradek_core::record::{BatchHeader, Limits, RecordsError, check_own_batch};
use serde::Serialize;

use super::VerifyArgs;
use super::epochs::EpochCheck;
use super::finding::{DERIVED, FLUSHED, Finding, GAP, NOTHING, Severity, TAIL};
use super::index_check::IndexCheck;
use super::layout::{self, FileKind, LogFiles, SegmentFiles, Target, unreadable};
use super::segment::{FileBatch, MAX_DECOMPRESSED_BYTES, SegmentReader};
use crate::failure::Failure;
use crate::output::{Output, OutputFormat, counted};
use crate::progress::{Progress, Unit};

/// Of one segment, so many findings are told; the rest is counted.
const FINDINGS_TOLD: usize = 20;
/// Kafka's own topics that are always compacted.
const COMPACTED: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];

/// Runs the command.
pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let logs = match layout::find(&args.path)? {
        Target::Logs(logs) => logs,
        Target::File(FileKind::Log) => vec![LogFiles {
            name: args.path.display().to_string(),
            segments: vec![layout::segment_of(&args.path)?],
            epochs: None,
        }],
        Target::File(_) => {
            return Err(Failure::usage(format!(
                "{}: an index is checked with its log: name the .log file beside it",
                args.path.display()
            )));
        }
    };
    let total = logs
        .iter()
        .flat_map(|log| &log.segments)
        .filter_map(|segment| segment.log.as_ref()?.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    let mut verify = Verify {
        compacted: args.compacted,
        progress: Progress::new("checked", Unit::Bytes, Some(total)),
        bytes: 0,
    };
    let mut out = Output::stdout();
    let mut damaged = 0;
    for log in &logs {
        let report = verify.log(log)?;
        verify.progress.clear();
        damaged += usize::from(report.damage > 0);
        report.write(&mut out, args.output)?;
        out.flush()?;
    }
    if args.output == OutputFormat::Text && logs.len() > 1 {
        let (logs, sound) = (logs.len(), logs.len() - damaged);
        out.line(format_args!(
            "{logs} logs: {sound} sound, {damaged} damaged"
        ))?;
    }
    out.flush()?;
    if damaged > 0 {
        Err(Failure::Said)
    } else {
        Ok(())
    }
}

/// What there is to say about one log.
#[derive(Debug, Default, Serialize)]
struct Report {
    log: String,
    segments: usize,
    batches: u64,
    records: u64,
    bytes: u64,
    /// First and next offset, if it has a segment.
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    damage: usize,
    remarks: usize,
    #[serde(skip)]
    findings: Vec<Finding>,
}

struct Verify {
    compacted: bool,
    progress: Progress,
    bytes: u64,
}

/// What is known while the segments of a log go by.
struct Walk<'a> {
    report: &'a mut Report,
    epochs: Option<EpochCheck>,
    compacted: bool,
    /// The offset that must come next; unknown at first, and after damage.
    expected: Option<i64>,
}

impl Verify {
    fn log(&mut self, files: &LogFiles) -> Result<Report, Failure> {
        let mut report = Report {
            log: files.name.clone(),
            start_offset: files.segments.first().map(|segment| segment.base),
            ..Report::default()
        };
        let topic = files.name.rsplit_once('-').map_or("", |(topic, _)| topic);
        let mut walk = Walk {
            report: &mut report,
            epochs: files.epochs.as_deref().map(EpochCheck::open),
            compacted: self.compacted || COMPACTED.contains(&topic),
            expected: None,
        };
        let last = files.segments.len().saturating_sub(1);
        for (at, segment) in files.segments.iter().enumerate() {
            self.segment(&mut walk, segment, at == last)?;
        }
        let end = walk.expected;
        let epochs = walk.epochs.take().map(EpochCheck::finish);
        report.end_offset = end;
        report.take(epochs.unwrap_or_default());
        Ok(report)
    }

    fn segment(
        &mut self,
        walk: &mut Walk<'_>,
        files: &SegmentFiles,
        is_last: bool,
    ) -> Result<(), Failure> {
        let Some(path) = &files.log else {
            let index = files.index.as_ref().or(files.time_index.as_ref());
            if let Some(index) = index {
                walk.report.take(vec![Finding {
                    severity: Severity::Damage,
                    file: index.clone(),
                    position: 0,
                    offset: Some(files.base),
                    problem: "the .log file that it belongs to is not there".to_owned(),
                    remedy: FLUSHED,
                }]);
            }
            return Ok(());
        };
        let mut reader = SegmentReader::open(path).map_err(|error| unreadable(path, &error))?;
        let mut check = SegmentCheck {
            path,
            is_last,
            findings: Vec::new(),
            index: files
                .index
                .as_ref()
                .map(|path| IndexCheck::open(path, files.base)),
            time_index: files
                .time_index
                .as_ref()
                .map(|path| IndexCheck::open(path, files.base)),
        };
        walk.report.segments += 1;
        walk.report.bytes += reader.length();
        check.begin(walk, files.base);
        let before = self.bytes;
        let mut complete = true;
        while let Some(next) = reader.next().map_err(|error| unreadable(path, &error))? {
            match next {
                Ok(batch) => {
                    check.batch(walk, &batch);
                    self.progress
                        .update(before + batch.position + batch.header.size_bytes());
                }
                Err(bad) => {
                    let rest = reader.length() - bad.position;
                    let problem = format!("{}; {rest} bytes from here on are unread", bad.error);
                    check.damage(bad.position, walk.expected, problem);
                    walk.expected = None;
                    complete = false;
                }
            }
        }
        self.bytes = before + reader.length();
        let told = check.finish(&reader, complete);
        walk.report.take(told);
        Ok(())
    }
}

/// The checks of one segment.
struct SegmentCheck<'a> {
    path: &'a Path,
    is_last: bool,
    findings: Vec<Finding>,
    index: Option<IndexCheck<OffsetEntry>>,
    time_index: Option<IndexCheck<TimeEntry>>,
}

impl SegmentCheck<'_> {
    /// Where the segment begins must be where the one before it ended.
    fn begin(&mut self, walk: &mut Walk<'_>, base: i64) {
        match walk.expected {
            Some(expected) if base < expected => {
                let problem =
                    format!("begins at {base}, but the segment before ends at {expected}");
                self.push(Severity::Damage, 0, Some(base), problem, FLUSHED);
            }
            Some(expected) if base > expected && !walk.compacted => {
                let problem = format!(
                    "begins at {base}, but the segment before ends at {expected}: {} offsets are \
                     missing",
                    base - expected
                );
                self.push(Severity::Damage, 0, Some(expected), problem, GAP);
            }
            _ => {}
        }
        walk.expected = Some(base);
    }

    fn batch(&mut self, walk: &mut Walk<'_>, batch: &FileBatch) {
        let FileBatch {
            position,
            header,
            bytes,
        } = batch;
        walk.report.batches += 1;
        walk.report.records += u64::try_from(header.record_count).unwrap_or(0);
        let sound = self.base_offset(walk, *position, header);
        let limits = Limits {
            max_decompressed_bytes: MAX_DECOMPRESSED_BYTES,
            ..Limits::default()
        };
        match check_own_batch(bytes.clone(), &limits) {
            Ok(_) => {}
            Err(error @ RecordsError::LinkedLz4Blocks) => {
                let (what, at) = (error.to_string(), *position);
                self.push(
                    Severity::Remark,
                    at,
                    Some(header.base_offset.0),
                    what,
                    NOTHING,
                );
            }
            Err(error) => {
                self.damage(*position, Some(header.base_offset.0), error.to_string());
            }
        }
        // The CRC does not cover the base offset: one that is wrong must not make every entry of
        // the indexes look wrong too.
        if sound {
            if let Some(index) = &mut self.index {
                index.batch(*position, header);
            }
            if let Some(index) = &mut self.time_index {
                index.batch(header);
            }
            if let Some(epochs) = &mut walk.epochs {
                epochs.batch(header);
            }
        }
    }

    /// Whether the batch has the offset that must come next.
    fn base_offset(&mut self, walk: &mut Walk<'_>, position: u64, header: &BatchHeader) -> bool {
        let base = header.base_offset.0;
        let expected = walk.expected.unwrap_or(base);
        if base < expected {
            let problem = format!("base offset {base} where {expected} was expected");
            self.damage(position, Some(expected), problem);
            walk.expected = Some(expected + i64::from(header.last_offset_delta) + 1);
            return false;
        }
        if base > expected && !walk.compacted {
            let problem = format!(
                "base offset {base} where {expected} was expected: {} offsets are missing",
                base - expected
            );
            let remedy = if self.is_last { TAIL } else { GAP };
            self.push(Severity::Damage, position, Some(expected), problem, remedy);
        }
        walk.expected = Some(header.next_offset().0);
        true
    }

    fn damage(&mut self, position: u64, offset: Option<i64>, problem: String) {
        let remedy = if self.is_last { TAIL } else { FLUSHED };
        self.push(Severity::Damage, position, offset, problem, remedy);
    }

    fn push(
        &mut self,
        severity: Severity,
        position: u64,
        offset: Option<i64>,
        problem: String,
        remedy: &'static str,
    ) {
        self.findings.push(Finding {
            severity,
            file: self.path.to_owned(),
            position,
            offset,
            problem,
            remedy,
        });
    }

    fn finish(mut self, reader: &SegmentReader, complete: bool) -> Vec<Finding> {
        // An index is rebuilt if it is missing; that it is, is worth knowing where it has a use.
        if self.index.is_none() && reader.length() > 0 {
            let problem =
                "it has no offset index; the broker rebuilds it when it starts".to_owned();
            self.push(Severity::Remark, 0, None, problem, DERIVED);
        }
        let mut findings = self.findings;
        // After damage the positions of what follows are not known.
        if let Some(index) = self.index {
            findings.extend(index.finish(reader.length(), complete));
        }
        if let Some(index) = self.time_index {
            findings.extend(index.finish(complete));
        }
        findings
    }
}

impl Report {
    /// Counts findings and keeps as many as will be told.
    fn take(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            let count = match finding.severity {
                Severity::Damage => &mut self.damage,
                Severity::Remark => &mut self.remarks,
            };
            *count += 1;
            if *count <= FINDINGS_TOLD {
                self.findings.push(finding);
            }
        }
    }

    fn write(&self, out: &mut Output, format: OutputFormat) -> Result<(), Failure> {
        if format == OutputFormat::Json {
            for finding in &self.findings {
                out.json(finding)?;
            }
            return out.json(&JsonReport {
                kind: "log",
                ok: self.damage == 0,
                report: self,
            });
        }
        let verdict = match self.damage {
            0 => "ok".to_owned(),
            1 => "1 damaged place".to_owned(),
            damage => format!("{damage} damaged places"),
        };
        out.line(format_args!(
            "{}: {}, {}, {}, {} bytes: {verdict}",
            self.log,
            counted(self.segments as u64, "segment", "segments"),
            counted(self.batches, "batch", "batches"),
            counted(self.records, "record", "records"),
            self.bytes
        ))?;
        for finding in &self.findings {
            out.line(format_args!("  {finding}"))?;
        }
        let untold = (self.damage + self.remarks).saturating_sub(self.findings.len());
        if untold > 0 {
            out.line(format_args!("  and {untold} more"))?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    ok: bool,
    #[serde(flatten)]
    report: &'a Report,
}
