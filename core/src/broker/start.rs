//! Starting: from a data directory to a broker that serves.
//!
//! 1. List the directory, and read the format version, the checkpoint and the clean marker. What
//!    is not Odradek's, or of an unknown version, is refused before anything is touched.
//! 2. Take the clean marker away, before the first append, and flush the directory.
//! 3. Open the metadata log and replay it.
//! 4. Append the first record of a new cluster, or after an unclean end the one that raises the
//!    leader epochs.
//! 5. Remove the directories that no record knows, and open all partitions.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use rand_core::Rng;

use super::state::{Stage, State};
use crate::bugs::Bug;
use crate::checkpoint;
use crate::context::{Context, Owner};
use crate::effect::{Effect, FileOp};
use crate::ids::{FilePath, Offset, OperationId, TopicId};
use crate::input::{DirEntry, DiskError};
use crate::log::{Log, LogState};
use crate::metadata::record::MetadataRecord;
use crate::metadata::store::{self, Change, MetadataStore, replace_file};
use crate::metadata::topics::{insert_partition, partition_name, topic_of_partition_metadata};
use crate::outstanding::Outstanding;
use crate::partition::PartitionKey;
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;
use crate::sequence::{Progress, Sequence};

/// The file that makes a directory Odradek's.
const FORMAT_FILE: &str = "odradek.format";
const FORMAT: &str = "odradek data directory v1\n";

/// There after a clean stop, and only then.
pub(super) const CLEAN_MARKER: &str = "clean.shutdown";
pub(super) const CLEAN: &str = "odradek clean shutdown v1\n";

/// What may lie in a directory whose first start did not get far enough to mark it.
const LEFT_BY_FIRST_START: &[&str] = &[store::DIRECTORY, checkpoint::FILE];

/// A start under way.
#[derive(Debug)]
pub(crate) struct Starting {
    step: Step,
    entries: Vec<DirEntry>,
    fresh: bool,
    clean: bool,
}

#[derive(Debug)]
enum Step {
    Listing,
    ReadingFiles,
    Claiming(Sequence),
    LoadingMetadata,
    Replaying,
    AppendingFirst,
    Formatting(Sequence),
    Identifying(Vec<String>),
    RemovingStrays(Sequence),
    LoadingPartitions(Outstanding<PartitionKey>),
}

/// The first step of a process.
pub(super) fn begin(state: &mut State, cx: &mut Context<'_>) {
    cx.read(Owner::Broker, ReadJob::List(FilePath::root()));
    state.stage = Stage::Starting(Starting {
        step: Step::Listing,
        entries: Vec::new(),
        fresh: false,
        clean: false,
    });
}

/// Gives up with a message for the operator.
pub(super) fn fail(state: &mut State, cx: &mut Context<'_>, message: String) {
    state.stage = Stage::Over;
    cx.out.push(Effect::Fatal { message });
}

/// A read of the start ended.
pub(super) fn read(state: &mut State, cx: &mut Context<'_>, result: Result<ReadOutput, DiskError>) {
    let output = match result {
        Ok(output) => output,
        Err(error) => {
            // Without these files it is not known which directories nobody needs any more: so
            // none is removed, and what else is wrong with the disk shows where it is read.
            if let Stage::Starting(Starting {
                step: Step::Identifying(_),
                ..
            }) = state.stage
            {
                let message = format!("no directory is removed in this start: {error}");
                cx.report(Level::Warn, "start", message);
                return load_partitions(state, cx);
            }
            return fail(
                state,
                cx,
                format!("cannot read the data directory: {error}"),
            );
        }
    };
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    match (
        core::mem::replace(&mut starting.step, Step::Replaying),
        output,
    ) {
        (Step::Listing, ReadOutput::List(entries)) => {
            starting.entries = entries;
            starting.step = Step::ReadingFiles;
            let files = [FORMAT_FILE, checkpoint::FILE, CLEAN_MARKER];
            cx.read(
                Owner::Broker,
                ReadJob::Files(files.map(FilePath::from).to_vec()),
            );
        }
        (Step::ReadingFiles, ReadOutput::Files(files)) => {
            if let Err(message) = judge_files(state, cx, files) {
                fail(state, cx, message);
            }
        }
        (Step::Identifying(directories), ReadOutput::Files(files)) => {
            remove_strays(state, cx, &directories, files);
        }
        (step, _) => starting.step = step,
    }
}

/// A file operation ended, perhaps one of the start's.
pub(super) fn managed(
    state: &mut State,
    cx: &mut Context<'_>,
    operation: OperationId,
    result: &Result<(), DiskError>,
) {
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    let (Step::Claiming(sequence) | Step::Formatting(sequence) | Step::RemovingStrays(sequence)) =
        &mut starting.step
    else {
        return;
    };
    match sequence.complete(cx, operation, result) {
        Progress::NotMine | Progress::Running => {}
        Progress::Failed(error) => fail(state, cx, format!("cannot start: {error}")),
        Progress::Done => match starting.step {
            Step::Claiming(_) => load_metadata(state, cx),
            Step::Formatting(_) => identify(state, cx),
            _ => load_partitions(state, cx),
        },
    }
}

/// Moves the start on when a log has been loaded, the replay is over, or the first record is
/// durable. True if it moved.
pub(super) fn settle(state: &mut State, cx: &mut Context<'_>) -> bool {
    let Stage::Starting(starting) = &mut state.stage else {
        return false;
    };
    match &mut starting.step {
        Step::LoadingMetadata => match state.metadata.log().map(Log::state) {
            Some(LogState::Loading) | None => return false,
            Some(LogState::Ready) => {
                starting.step = Step::Replaying;
                state.metadata.begin_replay(cx);
            }
            Some(LogState::Offline(error)) => {
                let message = format!("cannot load the cluster's metadata: {error}");
                fail(state, cx, message);
            }
            Some(other) => {
                let message = format!("cannot load the cluster's metadata: {other:?}");
                fail(state, cx, message);
            }
        },
        Step::Replaying if state.metadata.is_current() => append_first(state, cx),
        Step::LoadingPartitions(loading) => {
            let partitions = &state.partitions;
            let is_loaded =
                |key: &PartitionKey| partitions.get(key).is_none_or(|it| !it.log.is_loading());
            if !loading.is_over(is_loaded) {
                return false;
            }
            serve(state, cx);
        }
        _ => return false,
    }
    true
}

/// The first record is durable: go on.
pub(crate) fn first_record_durable(state: &mut State, cx: &mut Context<'_>) {
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    if !matches!(starting.step, Step::AppendingFirst) {
        return;
    }
    if starting.fresh {
        let bytes = Bytes::from_static(FORMAT.as_bytes());
        let ops = replace_file(&FilePath::from(FORMAT_FILE), bytes);
        starting.step = Step::Formatting(Sequence::start(cx, Owner::Broker, ops));
    } else {
        identify(state, cx);
    }
}

/// The first record is lost: the disk does not take writes.
pub(crate) fn first_record_lost(state: &mut State, cx: &mut Context<'_>) {
    if let Stage::Starting(_) = state.stage {
        fail(
            state,
            cx,
            format!(
                "cannot write to {}: see the log above; check the disk",
                store::DIRECTORY
            ),
        );
    }
}

fn judge_files(
    state: &mut State,
    cx: &mut Context<'_>,
    files: Vec<Option<Bytes>>,
) -> Result<(), String> {
    let Stage::Starting(starting) = &mut state.stage else {
        return Ok(());
    };
    let mut files = files.into_iter();
    let (format, checkpoint, marker) = (
        files.next().flatten(),
        files.next().flatten(),
        files.next().flatten(),
    );
    match format {
        Some(bytes) if *bytes == *FORMAT.as_bytes() => {}
        Some(bytes) => {
            return Err(format!(
                "{FORMAT_FILE}: the data directory has a format that this version does not know \
                 ({:?}); nothing was touched: start the version of Odradek that wrote it",
                String::from_utf8_lossy(bytes.get(..64).unwrap_or(&bytes)).trim_end()
            ));
        }
        None => {
            if let Some(entry) = starting
                .entries
                .iter()
                .find(|entry| !may_be_left(&entry.name))
            {
                return Err(format!(
                    "the data directory is not empty and not Odradek's (it holds '{}' and no \
                     {FORMAT_FILE}); nothing was touched: name an empty directory",
                    entry.name
                ));
            }
            starting.fresh = true;
            load_metadata(state, cx);
            return Ok(());
        }
    }
    if let Some(bytes) = checkpoint {
        let entries = checkpoint::decode(&bytes).map_err(|why| {
            format!(
                "{}: {why}; nothing was touched: restore the file from a copy, or remove it to \
                 have every log read from its beginning (deleted records may come back)",
                checkpoint::FILE
            )
        })?;
        state.checkpoint.load(entries);
    }
    // The names that are seen need not be durable: the first start may have failed to flush the one
    // of the format file, without which a later start would take the directory for a fresh one.
    let mut ops = vec![FileOp::SyncDir(FilePath::root())];
    if let Some(bytes) = marker {
        starting.clean = *bytes == *CLEAN.as_bytes();
        ops.insert(0, FileOp::RemoveFile(FilePath::from(CLEAN_MARKER)));
    }
    starting.step = Step::Claiming(Sequence::start(cx, Owner::Broker, ops));
    Ok(())
}

/// Hidden files, what a filesystem puts at its root, and what an interrupted first start leaves.
fn may_be_left(name: &str) -> bool {
    name.starts_with('.')
        || name == "lost+found"
        || name.ends_with(".tmp")
        || LEFT_BY_FIRST_START.contains(&name)
}

fn load_metadata(state: &mut State, cx: &mut Context<'_>) {
    let id = state.new_log_id();
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    starting.step = Step::LoadingMetadata;
    let spec = MetadataStore::spec(&state.config, id, state.bugs);
    let found = (!starting.fresh).then(|| {
        let entry = state.checkpoint.entry(store::KEY);
        let start = entry.map_or(Offset(0), |entry| entry.log_start_offset);
        (
            entry.map(|entry| entry.recovery_point),
            start,
            starting.clean,
        )
    });
    state.metadata.open(cx, spec, found);
}

fn append_first(state: &mut State, cx: &mut Context<'_>) {
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    let record = if starting.fresh {
        let mut id = [0; 16];
        state.rng.fill_bytes(&mut id);
        Some(MetadataRecord::Cluster {
            id: TopicId(id).to_string(),
        })
    } else if starting.clean {
        None
    } else {
        Some(MetadataRecord::Epoch {
            epoch: state.metadata.image().epoch + 1,
        })
    };
    if state.bugs.has(Bug::RefuseUncleanStart)
        && matches!(record, Some(MetadataRecord::Epoch { .. }))
    {
        return fail(state, cx, "the last process did not stop gracefully".into());
    }
    let Some(record) = record else {
        return identify(state, cx);
    };
    starting.step = Step::AppendingFirst;
    match state.metadata.append(cx, &[record]) {
        Ok(()) => state.metadata.tell_when_durable(Change::Start),
        Err(_) => first_record_lost(state, cx),
    }
}

/// Asks of every directory that looks like a partition's whose it is.
fn identify(state: &mut State, cx: &mut Context<'_>) {
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    let directories: Vec<String> = starting
        .entries
        .iter()
        .filter(|entry| entry.length.is_none() && looks_like_partition(&entry.name))
        .map(|entry| entry.name.clone())
        .collect();
    if directories.is_empty() {
        return load_partitions(state, cx);
    }
    let files = directories
        .iter()
        .map(|dir| FilePath::from(dir.as_str()).join("partition.metadata"));
    cx.read(Owner::Broker, ReadJob::Files(files.collect()));
    starting.step = Step::Identifying(directories);
}

fn looks_like_partition(name: &str) -> bool {
    let number = |(_, index): (&str, &str)| index.parse::<u32>().is_ok();
    name != store::DIRECTORY
        && (name.ends_with("-delete") || name.rsplit_once('-').is_some_and(number))
}

fn remove_strays(
    state: &mut State,
    cx: &mut Context<'_>,
    directories: &[String],
    files: Vec<Option<Bytes>>,
) {
    let mut ops = Vec::new();
    for (name, file) in directories.iter().zip(files) {
        let topic = file.as_deref().and_then(topic_of_partition_metadata);
        let named = state.metadata.image().topic_of_partition(name);
        if named.is_some() && named.map(|named| named.id) == topic {
            continue;
        }
        // The directory of a topic that is known is durable before the topic is, and a directory of
        // its name that was there before is gone by then: another id in it is damage of that one
        // small file, and no reason to throw the records away.
        if named.is_some() && topic.is_some() {
            cx.report(
                Level::Error,
                "start",
                format!(
                    "file={name}/partition.metadata names another topic than the cluster's \
                     metadata does; the directory is used as that topic's: check the disk, and \
                     restore the file from a copy"
                ),
            );
        } else if topic.is_some() || name.ends_with("-delete") {
            cx.report(
                Level::Info,
                "start",
                format!("removing a directory that no topic owns: dir={name}"),
            );
            ops.push(FileOp::RemoveTree(FilePath::from(name.as_str())));
        } else {
            cx.report(
                Level::Warn,
                "start",
                format!("left alone a directory without partition.metadata: dir={name}"),
            );
        }
    }
    if ops.is_empty() {
        return load_partitions(state, cx);
    }
    ops.push(FileOp::SyncDir(FilePath::root()));
    if let Stage::Starting(starting) = &mut state.stage {
        starting.step = Step::RemovingStrays(Sequence::start(cx, Owner::Broker, ops));
    }
}

fn load_partitions(state: &mut State, cx: &mut Context<'_>) {
    let Stage::Starting(starting) = &mut state.stage else {
        return;
    };
    let clean = starting.clean;
    let image = state.metadata.image();
    let topics: Vec<_> = image
        .topics()
        .map(|topic| {
            (
                topic.id,
                topic.name.clone(),
                topic.partitions,
                image.leader_epoch(topic),
            )
        })
        .collect();
    for (topic, name, partitions, epoch) in topics {
        for index in 0..partitions {
            let key = PartitionKey { topic, index };
            let spec = state.log_spec(key, &partition_name(&name, index));
            let entry = state.checkpoint.entry(key);
            let start = entry.map_or(Offset(0), |entry| entry.log_start_offset);
            let point = entry.map(|entry| entry.recovery_point);
            let cleaner = entry.map(|entry| entry.cleaner_point).unwrap_or_default();
            let log = Log::open(cx, spec, point, start, cleaner, clean);
            insert_partition(state, key, &name, log, epoch);
        }
    }
    let loading = state.partitions.keys().copied().collect();
    if let Stage::Starting(starting) = &mut state.stage {
        starting.step = Step::LoadingPartitions(loading);
    }
}

fn serve(state: &mut State, cx: &mut Context<'_>) {
    let Stage::Starting(starting) = &state.stage else {
        return;
    };
    let clean = starting.clean || starting.fresh;
    let mut offline = 0;
    for partition in state.partitions.values() {
        if let LogState::Offline(error) = partition.log().state() {
            offline += 1;
            cx.report(
                Level::Error,
                "start",
                format!("partition offline: partition={} {error}", partition.name),
            );
        }
    }
    cx.report(
        Level::Info,
        "start",
        format!(
            "serving: cluster={} partitions={} offline={offline} clean={clean} epoch={}",
            state.metadata.image().cluster_id,
            state.partitions.len(),
            state.metadata.image().epoch
        ),
    );
    state.stage = Stage::Running;
    state.schedule_retention(cx);
    state.checkpoint.want(cx.now);
    state.tell_codecs(cx);
    cx.out.push(Effect::Started);
}
