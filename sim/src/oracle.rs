//! What must hold, judged at every step from outside: from the effects of the broker, the bytes of
//! its answers, and the files on its disk. Nothing here asks the broker's own opinion.
//!
//! The [`model`] is a log kept apart from the implementation: what was issued, what of it was
//! acknowledged, what was shown to anyone. The families of checks:
//!
//! | file | checks |
//! |---|---|
//! | [`durability`] | AckedDurable, FailedFlushNeverAcked, NoPartialAckOnFullDisk |
//! | [`offsets`] | OffsetDense, OffsetNeverReused, BatchBytesImmutable, CorruptNotServed |
//! | [`visibility`] | NothingVisibleThenLost, HighWatermarkMonotonic, HighWatermarkAtMostLogEnd, NeverBeyondHighWatermark, LogStartMonotonic |
//! | [`recovery`] | PrefixRecovery, RecoveryIdempotent |
//! | [`retention`] | OnlyExpiredDeleted, and that what is expired goes |
//! | [`cleaned`] | CleanedKeepsLatest |
//! | [`indexes`] | IndexAgreesWithLog, RebuiltEqualsOriginal |
//! | [`long_poll`] | WakesOnMinBytesOrDeadline, NoLostWakeup |
//! | [`connections`] | ClosedConnectionLeaksNothing, answers that decode and come in order |
//! | [`asked`] | answers that hold no more than they may, and all that is there |
//! | [`admin`] | ConfigDurable, EpochEndsWhereItDoes, answers that say something about everything asked |
//! | [`clients`] | LostWrite, UnsentRead, FailedRead, InconsistentOffsets, NonMonotonicPoll, SkippedPoll, SendOrder, IdempotentSendOnce, ClientKeepsItsWord |
//! | [`producers`] | SequenceGapless, DuplicateReturnsOriginalOffset, StaleEpochFenced, OutOfOrderRejected, ProducerIdUnique, DedupSurvivesRestart |
//! | [`groups`] | GenerationMonotonic, OnePartitionOneOwnerPerGeneration, StaleCommitRejected, CommittedOffsetDurable, CommitNeverRegressesUnasked, StaticMemberFenced, LegalTargetAssignment, NoDoubleAssignment, MemberEpochValid, RebalanceTerminates, DeadMemberEvicted |
//! | [`needless`] | nothing is repaired, read again or complained about that is right |
//! | [`damage`] | DamageDetected, SaysSoOnce, ReadableWhileReadOnly |
//! | [`liveness`] | EverythingAcknowledgedIsRead, and the bounds of virtual time |

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use odradek_core::effect::{Effect, FileOp};
use odradek_core::ids::{ConnectionId, FileId, FilePath, TopicId};
use odradek_core::log::config::{Durability, LogConfig};
use odradek_core::read_job::ReadJob;
use odradek_core::time::{Mono, Now};

use self::admin::Configs;
use self::clients::Clients;
use self::codes::Codes;
use self::connections::Exchanges;
use self::damage::Damages;
use self::groups::Groups;
use self::model::{LogModel, Models};
use self::producers::Producers;
use crate::disk::Disk;
use crate::swarm::Workload;
use crate::trace::ChainedHash;

/// The file that says that a stop was clean.
pub(crate) const CLEAN: &str = "clean.shutdown";
/// How the directory of the metadata log begins, and no other.
const METADATA_PREFIX: &str = "__cluster_metadata";

pub mod admin;
pub mod answers;
pub mod asked;
pub mod cleaned;
pub mod clients;
pub mod codes;
pub mod connections;
pub mod damage;
pub mod durability;
pub mod groups;
pub mod indexes;
pub mod liveness;
mod log_starts;
pub mod long_poll;
pub mod model;
pub mod needless;
pub mod offsets;
pub mod producers;
pub mod recovery;
pub mod retention;
pub mod visibility;

/// What can be violated. The names are those of the fault model's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// What is acknowledged is on the disk, and stays.
    AckedDurable,
    /// Nothing is acknowledged that only a failed flush should have saved.
    FailedFlushNeverAcked,
    /// What is acknowledged was written whole.
    NoPartialAckOnFullDisk,
    /// Offsets have no gaps.
    OffsetDense,
    /// An offset means one record for ever.
    OffsetNeverReused,
    /// Bytes below the log end never change.
    BatchBytesImmutable,
    /// No batch is served whose CRC does not hold.
    CorruptNotServed,
    /// What a reader saw stays.
    NothingVisibleThenLost,
    /// The high watermark never goes back.
    HighWatermarkMonotonic,
    /// The high watermark is never above the log end.
    HighWatermarkAtMostLogEnd,
    /// No record at or above the high watermark is served.
    NeverBeyondHighWatermark,
    /// The log start never goes back.
    LogStartMonotonic,
    /// A log start rises only as far as somebody asked, or to the end of segments that are expired.
    OnlyExpiredDeleted,
    /// What recovery keeps is a prefix of what was appended.
    PrefixRecovery,
    /// Recovery keeps the longest prefix that is sound, however often it runs.
    RecoveryIdempotent,
    /// The cleaner leaves of each key the last record, and lets no deleted one come back.
    CleanedKeepsLatest,
    /// Every index entry names a batch that is there.
    IndexAgreesWithLog,
    /// An index has the bytes that a rebuild would give it.
    RebuiltEqualsOriginal,
    /// A fetch answers when it has its minimum bytes or its deadline has come, and not before.
    WakesOnMinBytesOrDeadline,
    /// A fetch never waits while what it waits for is there.
    NoLostWakeup,
    /// Nothing waits on behalf of a connection that is gone.
    ClosedConnectionLeaksNothing,
    /// Answers decode, come in order, and say something about everything asked.
    AnswersWellFormed,
    /// A topic whose creation was acknowledged is there.
    CreatedTopicDurable,
    /// A topic whose deletion was acknowledged does not come back.
    DeletedTopicStaysAway,
    /// After a start and a graceful stop, the data directory holds what the broker knows, and nothing
    /// else.
    NothingLeftOver,
    /// A config that was set is in force until it is changed.
    ConfigDurable,
    /// OffsetForLeaderEpoch tells where an epoch ends.
    EpochEndsWhereItDoes,
    /// What a producer was told is in the log is read where it was told.
    LostWrite,
    /// Nothing is read that nobody sent.
    UnsentRead,
    /// What a producer was told has failed is never read.
    FailedRead,
    /// An offset holds the same record for every producer and reader.
    InconsistentOffsets,
    /// A reader never goes back unasked.
    NonMonotonicPoll,
    /// A reader passes over nothing.
    SkippedPoll,
    /// Records of a producer that keeps their order are appended in it.
    SendOrder,
    /// A record of an idempotent producer is in the log once.
    IdempotentSendOnce,
    /// The client's state machine does for its application what it says.
    ClientKeepsItsWord,
    /// The batches of a producer's epoch follow each other, and none is there twice.
    SequenceGapless,
    /// A retry of one of a producer's last five batches is answered with the original's offset.
    DuplicateReturnsOriginalOffset,
    /// Nothing of an older epoch of a producer is written behind a newer one.
    StaleEpochFenced,
    /// A batch that leaves sequence numbers out is refused.
    OutOfOrderRejected,
    /// No two producers have the same id.
    ProducerIdUnique,
    /// What was known of a producer's last batches is known after a restart.
    DedupSurvivesRestart,
    /// A group's generations never go back, and each is one rebalance.
    GenerationMonotonic,
    /// No two members own a partition in one generation, and each owns what its leader gave it.
    OnePartitionOneOwnerPerGeneration,
    /// A commit is taken only from a member of now, or of a group without members from anybody.
    StaleCommitRejected,
    /// An offset that was committed is there after any crash.
    CommittedOffsetDurable,
    /// A committed offset goes back only if somebody commits or deletes it.
    CommitNeverRegressesUnasked,
    /// A static member's old self is fenced.
    StaticMemberFenced,
    /// A consumer group's assignment has only partitions that are there, each once, and of topics
    /// that its member subscribes to.
    LegalTargetAssignment,
    /// No partition is given to a member while another has it.
    NoDoubleAssignment,
    /// A member is in the epoch that it was told, or the one before, and epochs do not go back.
    MemberEpochValid,
    /// Once faults stop, every group becomes stable.
    RebalanceTerminates,
    /// Once faults stop, whoever is dead is a member no more.
    DeadMemberEvicted,
    /// Once faults stop, everything acknowledged is read.
    EverythingAcknowledgedIsRead,
    /// Once faults stop, everything ends within a bound of virtual time.
    Liveness,
    /// What damage of the disk took was refused or cut, and the broker's log names the place.
    DamageDetected,
    /// That a filesystem turned read-only is said once for each log and process.
    SaysSoOnce,
    /// What was readable stays so when the filesystem turns read-only.
    ReadableWhileReadOnly,
    /// A process ends only for a fault that was injected.
    FatalWithoutFault,
    /// The core never panics.
    Panic,
    /// One seed is one run, whatever process does it.
    OneSeedOneRun,
}

/// A check that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub check: Check,
    /// When.
    pub at: Mono,
    /// What was expected and what was found.
    pub detail: String,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Killed: the page cache stays.
    Process,
    /// The power went.
    Power,
}

/// Things that should happen in some run of a campaign; if one never does, the campaign proves
/// less than it seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// A fetch was answered by new data while it waited.
    FetchWokenByBytes,
    /// A fetch was answered by its deadline.
    FetchEndedByDeadline,
    /// Recovery cut something.
    TornTailCut,
    /// A process died before it had started.
    DiedWhileLoading,
    /// A segment was rolled.
    SegmentRolled,
    /// A flush failed while acknowledgements waited for it.
    FlushFailed,
    /// A write failed while acknowledgements waited for it.
    WriteFailed,
    /// A log was cut while running, and went on.
    CutWhileRunning,
    /// A produce was refused with KAFKA_STORAGE_ERROR.
    StorageErrorAnswered,
    /// A produce timed out.
    ProduceTimedOut,
    /// A retry was answered with the offset of the original.
    DuplicateAnswered,
    /// A retry was answered so that was acknowledged before the broker started.
    DuplicateAnsweredAfterRestart,
    /// A batch was refused with OUT_OF_ORDER_SEQUENCE_NUMBER.
    OutOfOrderAnswered,
    /// A batch was refused with INVALID_PRODUCER_EPOCH.
    StaleEpochAnswered,
    /// The log start was raised.
    LogStartRaised,
    /// Retention by time raised it.
    ExpiredByTime,
    /// Retention by size raised it.
    ExpiredBySize,
    /// Under `os` a batch was acknowledged of which `flush.messages` says how much of it is flushed.
    FlushedBeforeAnswer,
    /// A power loss under `os` met what that had flushed.
    FlushedSurvived,
    /// Under `os` everything was flushed because of `flush.ms`.
    FlushedInTime,
    /// A file was flushed while a flush of it was under way.
    FlushedBeside,
    /// A topic was deleted.
    TopicDeleted,
    /// A connection went away while the broker had it.
    ConnectionGone,
    /// A stop was graceful while clients were at work.
    StoppedGracefully,
    /// A file was torn by a power loss.
    FileTorn,
    /// A name was lost by a power loss.
    NameLost,
    /// The broker refused to go on because of a fault.
    Fatal,
    /// A producer lost a connection with a request in flight, and a record of then was delivered.
    LostAndDelivered,
    /// A producer does not know what became of a record.
    OutcomeUnknown,
    /// A producer knows that a record is not in the log.
    OutcomeFailed,
    /// A producer died with records on their way.
    ProducerDied,
    /// A retry appended a record again.
    AppendedTwice,
    /// A consumer went on elsewhere by its policy.
    ConsumerReset,
    /// A consumer without a policy said that its position is gone.
    PositionLost,
    /// A topic got more partitions.
    PartitionsAdded,
    /// A config was read that was set before.
    ConfigRead,
    /// A segment was cleaned.
    SegmentCleaned,
    /// A cleaned segment took the place of others.
    SegmentReplaced,
    /// A start completed what the cleaner was at.
    SwapCompleted,
    /// A classic group began a generation.
    Rebalanced,
    /// It had more than one member.
    RebalancedMany,
    /// A leader vanished between its join and its sync.
    LeaderVanished,
    /// A member of a group died without a word.
    MemberDied,
    /// A member left.
    MemberLeft,
    /// A static member was removed by its instance id.
    MemberRemoved,
    /// A new member was sent away to come back with its id.
    MemberIdRequired,
    /// A static member's old self was fenced.
    StaticMemberFenced,
    /// A member joined a group that the broker assigns for.
    ConsumerJoined,
    /// Such a group was stable with several members.
    ConsumersStable,
    /// A member of such a group was fenced by its epoch, or was none any more.
    MemberEpochFenced,
    /// An expression that is none was refused.
    ExpressionRefused,
    /// A group went from one protocol to the other.
    ProtocolChanged,
    /// A classic member joined a group that the broker assigns for.
    ProtocolsMixed,
    /// The core's client was assigned partitions, as a member of a classic group.
    ClassicMachineAssigned,
    /// It handed some over to others.
    ClassicMachineRevoked,
    /// It learned that it had lost them.
    ClassicMachineFenced,
    /// A commit of its own was stored.
    ClassicMachineCommitted,
    /// It was told that one was not.
    ClassicMachineCommitRefused,
    /// The core's client was assigned partitions, as a member of a group that the broker assigns for.
    ConsumerMachineAssigned,
    /// It handed some over to others.
    ConsumerMachineRevoked,
    /// It learned that it had lost them.
    ConsumerMachineFenced,
    /// A commit of its own was stored.
    ConsumerMachineCommitted,
    /// It was told that one was not.
    ConsumerMachineCommitRefused,
    /// An offset was committed.
    CommitStored,
    /// A commit was fenced.
    CommitFenced,
    /// An offset was read that was committed before the broker started.
    CommitReadAfterRestart,
    /// An offset was deleted.
    OffsetDeleted,
    /// An offset expired.
    OffsetExpired,
    /// A group was deleted.
    GroupDeleted,
    /// A process died while members joined or synced.
    CrashedInRebalance,
    /// A process died with a heartbeat of a consumer group under way.
    CrashedInHeartbeat,
    /// A process died with a commit under way.
    CrashedInCommit,
    /// A process died with a batch of an idempotent producer under way.
    CrashedInIdempotentProduce,
    /// A batch was packed in the codec that its topic keeps.
    Recompressed,
    /// A start or a read found an index wrong, and it was built anew.
    IndexRebuilt,
    /// Records were read while the filesystem was read-only.
    ReadWhileReadOnly,
    /// A produce was refused while the filesystem was read-only.
    RefusedWhileReadOnly,
    /// A fetch was refused a batch that was damaged.
    DamagedRefused,
    /// Recovery cut the log at a batch that was damaged.
    DamagedCut,
    /// Damage put a partition out of service.
    PartitionOffline,
    /// The broker did not start, and named the damaged file.
    RestoredByOperator,
}

impl Mark {
    /// Those that a campaign of many schedules must hit.
    #[must_use]
    pub fn of(workload: Workload) -> Vec<Self> {
        let all = Self::ALL.iter().copied();
        match workload {
            Workload::Mixed => all
                // Few of its runs have such members, and they seldom lose anything.
                .filter(|mark| {
                    !matches!(
                        mark,
                        Self::ClassicMachineFenced | Self::ConsumerMachineFenced
                    )
                })
                .filter(|mark| *mark < Self::DamagedRefused)
                .collect(),
            Workload::Damage => vec![
                Self::IndexRebuilt,
                Self::DamagedRefused,
                Self::DamagedCut,
                Self::PartitionOffline,
                Self::RestoredByOperator,
            ],
            Workload::Idempotence => vec![
                Self::DuplicateAnswered,
                Self::DuplicateAnsweredAfterRestart,
                Self::OutOfOrderAnswered,
                Self::StaleEpochAnswered,
                Self::CrashedInIdempotentProduce,
            ],
            Workload::Compaction => vec![
                Self::SegmentCleaned,
                Self::SegmentReplaced,
                Self::SwapCompleted,
            ],
            Workload::Rebalance => all
                .filter(|mark| *mark >= Self::Rebalanced && *mark <= Self::CrashedInCommit)
                .collect(),
        }
    }

    /// All of them.
    pub const ALL: &[Self] = &[
        Self::FetchWokenByBytes,
        Self::FetchEndedByDeadline,
        Self::TornTailCut,
        Self::DiedWhileLoading,
        Self::SegmentRolled,
        Self::FlushFailed,
        Self::WriteFailed,
        Self::CutWhileRunning,
        Self::StorageErrorAnswered,
        Self::ProduceTimedOut,
        Self::DuplicateAnswered,
        Self::DuplicateAnsweredAfterRestart,
        Self::OutOfOrderAnswered,
        Self::StaleEpochAnswered,
        Self::LogStartRaised,
        Self::ExpiredByTime,
        Self::ExpiredBySize,
        Self::FlushedBeforeAnswer,
        Self::FlushedSurvived,
        Self::FlushedInTime,
        Self::FlushedBeside,
        Self::TopicDeleted,
        Self::ConnectionGone,
        Self::StoppedGracefully,
        Self::FileTorn,
        Self::NameLost,
        Self::Fatal,
        Self::LostAndDelivered,
        Self::OutcomeUnknown,
        Self::OutcomeFailed,
        Self::ProducerDied,
        Self::AppendedTwice,
        Self::ConsumerReset,
        Self::PositionLost,
        Self::PartitionsAdded,
        Self::ConfigRead,
        Self::SegmentCleaned,
        Self::SegmentReplaced,
        Self::SwapCompleted,
        Self::Rebalanced,
        Self::RebalancedMany,
        Self::LeaderVanished,
        Self::MemberDied,
        Self::MemberLeft,
        Self::MemberRemoved,
        Self::MemberIdRequired,
        Self::StaticMemberFenced,
        Self::ConsumerJoined,
        Self::ConsumersStable,
        Self::MemberEpochFenced,
        Self::ExpressionRefused,
        Self::ProtocolChanged,
        Self::ProtocolsMixed,
        Self::ClassicMachineAssigned,
        Self::ClassicMachineRevoked,
        Self::ClassicMachineFenced,
        Self::ClassicMachineCommitted,
        Self::ClassicMachineCommitRefused,
        Self::ConsumerMachineAssigned,
        Self::ConsumerMachineRevoked,
        Self::ConsumerMachineFenced,
        Self::ConsumerMachineCommitted,
        Self::ConsumerMachineCommitRefused,
        Self::CommitStored,
        Self::CommitFenced,
        Self::CommitReadAfterRestart,
        Self::OffsetDeleted,
        Self::OffsetExpired,
        Self::GroupDeleted,
        Self::CrashedInRebalance,
        Self::CrashedInHeartbeat,
        Self::CrashedInCommit,
        Self::CrashedInIdempotentProduce,
        Self::Recompressed,
        Self::IndexRebuilt,
        Self::ReadWhileReadOnly,
        Self::RefusedWhileReadOnly,
        Self::DamagedRefused,
        Self::DamagedCut,
        Self::PartitionOffline,
        Self::RestoredByOperator,
    ];
}

/// Watches a run.
#[derive(Clone, Debug)]
pub struct Oracle {
    durability: Durability,
    log_config: LogConfig,
    models: Models,
    exchanges: Exchanges,
    producers: Producers,
    clients: Clients,
    configs: Configs,
    groups: Groups,
    damages: Damages,
    files: BTreeMap<FileId, FilePath>,
    topic_ids: BTreeMap<TopicId, String>,
    /// Topics whose creation was acknowledged and whose deletion nobody asked for.
    created: BTreeMap<String, i32>,
    violations: Vec<Violation>,
    /// Counts what may let a waiting fetch have more: what clients were told, and what came back.
    told: u64,
    /// Counts of what happened.
    pub marks: BTreeMap<Mark, u64>,
    /// The error codes that were answered.
    pub codes: Codes,
    /// How many batches were acknowledged.
    pub acked_batches: u64,
    /// How many fetches had records.
    pub full_fetches: u64,
    now: Mono,
    /// What the wall clock says, in milliseconds.
    wall: i64,
    was_loading: bool,
    ever_started: bool,
    is_stopping: bool,
    /// Whether anything was ever wrong with the disk.
    had_trouble: bool,
    /// Whether the process that starts finds what a clean stop left.
    starts_clean: bool,
    /// Until then the process stands, or stood, still.
    paused_until: Mono,
}

impl Oracle {
    /// Watches a broker with these settings.
    #[must_use]
    pub fn new(durability: Durability, log_config: LogConfig) -> Self {
        Self {
            durability,
            log_config,
            models: Models::default(),
            exchanges: Exchanges::default(),
            producers: Producers::default(),
            clients: Clients::default(),
            configs: Configs::default(),
            groups: Groups::default(),
            damages: Damages::default(),
            files: BTreeMap::new(),
            topic_ids: BTreeMap::new(),
            created: BTreeMap::new(),
            violations: Vec::new(),
            told: 0,
            marks: BTreeMap::new(),
            codes: Codes::default(),
            acked_batches: 0,
            full_fetches: 0,
            now: Mono::default(),
            wall: 0,
            was_loading: false,
            ever_started: false,
            is_stopping: false,
            had_trouble: false,
            starts_clean: false,
            paused_until: Mono::default(),
        }
    }

    /// The first violation so far.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// Notes that something happened.
    pub fn mark(&mut self, mark: Mark) {
        *self.marks.entry(mark).or_default() += 1;
    }

    /// Notes that something must not have happened.
    pub fn violate(&mut self, check: Check, detail: impl Into<String>) {
        self.violations.push(Violation {
            check,
            at: self.now,
            detail: detail.into(),
        });
    }

    /// Time moves on.
    pub const fn tick(&mut self, now: Now) {
        self.now = now.mono;
        self.wall = now.wall.0;
    }

    /// An effect is about to be handed to the host, whose disk is still as it was.
    pub fn effect(&mut self, effect: &Effect, disk: &Disk) {
        match effect {
            Effect::Open { file, path, .. } => {
                self.files.insert(*file, path.clone());
                self.opened(path);
            }
            Effect::Write {
                file,
                position,
                data,
            } => {
                if let Some(path) = self.files.get(file).cloned() {
                    let mut bytes = data.header.to_vec();
                    bytes.extend_from_slice(&data.records);
                    self.recovered(path.parent().as_str(), disk);
                    self.written(&path, position.0, bytes.into());
                }
            }
            // In the middle of a life: a log is reopened after a failure, as at a start.
            Effect::Read { job, .. } => match &**job {
                ReadJob::LoadLog(load) => self.reopening(load.dir.as_str(), disk),
                ReadJob::ScanSegment(scan) => self.scans(scan),
                _ => {}
            },
            Effect::Manage { op, .. } => match op {
                FileOp::Truncate { file, length } => {
                    if let Some(path) = self.files.get(file).cloned() {
                        self.cut(&path, length.0);
                    }
                }
                FileOp::SetLength { path, length } => self.cut(&path.clone(), length.0),
                FileOp::WriteFile { path, bytes } if log_starts::is_written(path) => {
                    self.log_starts_written(bytes, disk);
                }
                FileOp::WriteFile { path, .. } => self.opened(path),
                FileOp::RemoveFile(path) => self.removed(path),
                FileOp::Rename { from, to }
                    if from.name().ends_with(".log.cleaned")
                        && to.name().ends_with(".log.swap") =>
                {
                    self.swap_named(from, disk);
                }
                FileOp::Rename { from, .. } if from.name().ends_with(".log.swap") => {
                    let log = self.models.get(from.parent().as_str());
                    let completes = log.is_some_and(|log| log.is_loading);
                    self.mark(Mark::SegmentReplaced);
                    if completes {
                        self.mark(Mark::SwapCompleted);
                    }
                }
                FileOp::Rename { from, to } if is_log(from) && !is_log(to) => self.removed(from),
                FileOp::Rename { from, to } => self.models.rename(from.as_str(), to.as_str()),
                FileOp::RemoveTree(path) => self.models.forget(path.as_str()),
                _ => {}
            },
            _ => {}
        }
    }

    /// Adds to a hash all that a start from a given disk is judged by: two oracles with the same hash
    /// say the same of it.
    pub fn add_expectations(&self, hash: &mut ChainedHash) {
        hash.text(format_args!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {}",
            self.models,
            self.producers,
            self.configs,
            self.groups,
            self.topic_ids,
            self.created,
            self.ever_started,
        ));
    }

    /// A process was started on this disk.
    pub fn starting(&mut self, disk: &Disk) {
        self.was_loading = true;
        self.is_stopping = false;
        self.starts_clean = disk.cached(&CLEAN.into()).is_some();
        self.expect_recovery(disk);
    }

    /// Loading is over. Logs that could not be recovered yet may follow.
    pub fn started(&mut self, disk: &Disk) {
        self.was_loading = false;
        self.ever_started = true;
        self.metadata_recovered(disk);
        self.check_indexes(disk, false);
    }

    /// Something is wrong with the disk, whatever comes of it.
    pub const fn disk_is_ill(&mut self) {
        self.had_trouble = true;
    }

    /// A graceful stop begins.
    pub const fn stopping(&mut self) {
        self.is_stopping = true;
    }

    /// A process died, or stopped.
    pub fn ended(&mut self, death: Option<Death>) {
        if death.is_some() && self.was_loading {
            self.mark(Mark::DiedWhileLoading);
        }
        self.files.clear();
        self.groups_process_ended(death);
        self.exchanges.clear();
        self.producers.process_ended();
        self.damage_process_ended();
        self.models.process_ended(death);
    }

    /// A graceful stop is over. If it is marked clean, all files say what they should.
    pub fn stopped(&mut self, disk: &Disk) {
        if disk.cached(&CLEAN.into()).is_some() {
            self.check_indexes(disk, true);
        }
    }

    /// A frame reached the broker.
    pub fn request(&mut self, connection: ConnectionId, frame: &Bytes) {
        self.exchanges.request(self.now, connection, frame);
        self.note_sent(connection);
        self.note_intentions(connection);
        self.note_group_request(connection);
    }

    /// A connection is gone.
    pub fn closed(&mut self, connection: ConnectionId) {
        self.group_requests_lost(Some(connection));
        self.exchanges.close(connection);
    }
}

/// Whether a path is a segment.
fn is_log(path: &FilePath) -> bool {
    path.name().ends_with(".log") && !path.parent().as_str().is_empty()
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.check, self.at, self.detail)
    }
}

impl LogModel {
    /// Whether it is a partition's, and not that of the broker's metadata.
    fn is_users(&self) -> bool {
        !self.directory.starts_with(METADATA_PREFIX)
    }
}

#[cfg(test)]
mod tests;
