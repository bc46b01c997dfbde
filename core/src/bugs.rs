//! Planted bugs that prove the simulator's oracle: each can be switched on in a build with the
//! feature `bugs`, and in no other build.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// Under `fsync`, acknowledge and show what is written but not flushed.
    AckBeforeFlush,
    /// Recovery takes a batch whose CRC does not hold.
    SkipCrcAtRecovery,
    /// A failed flush is called again, and its success is believed.
    RetryFailedFlush,
    /// A new segment takes records before the name of its file is durable.
    ForgetDirectorySync,
    /// A waiting fetch registers in the step after the one in which it found nothing.
    RegisterAfterCheck,
    /// An entry of the offset index points to the batch before the one it names.
    IndexEntryOff,
    /// A retried batch of an idempotent producer is appended again.
    AppendDuplicates,
    /// A retried batch is answered with the end of the log instead of its own offset.
    DuplicateAtLogEnd,
    /// Sequence numbers of idempotent producers may have gaps.
    SkipSequenceCheck,
    /// An older epoch of an idempotent producer is taken.
    IgnoreProducerEpoch,
    /// A start does not read what the log's producers wrote last.
    ForgetProducersAtStart,
    /// A producer id is handed out before the block it is from is durable.
    ProducerIdBeforeDurable,
    /// A producer puts a batch that has to be sent again behind those that wait.
    ForgetSendOrder,
    /// A producer says that a record failed of which it only heard nothing.
    UnansweredIsFailed,
    /// A consumer that loses its position goes on at the end, whatever its policy.
    IgnoreResetPolicy,
    /// An idempotent producer gives a batch that it sends again another number.
    NumberRetriesAnew,
    /// A producer counts the records of a batch from one when it tells their offsets.
    OutcomeOffsetOff,
    /// A producer makes up an offset for what it heard nothing of, and says that it is there.
    MakeUpOffsets,
    /// A producer says that it has flushed as soon as it is asked to.
    FlushTooEarly,
    /// A consumer hands out a batch from its first record on, wherever it stands.
    HandOutWholeBatches,
    /// A consumer hands out values without their last byte.
    CutValues,
    /// A fetch is served up to the end of the log.
    ServeBeyondHighWatermark,
    /// DescribeGroups says nothing of groups that are not there.
    LeaveOutUnknownGroups,
    /// The cleaner keeps the first record of a key instead of the last.
    CleanerKeepsFirst,
    /// The cleaner drops records that are newer than what it has looked at.
    CleanerDropsAboveMap,
    /// The cleaner drops tombstones in the cleaning that sees them first.
    DropTombstonesEarly,
    /// The last offset of a batch from which the cleaner took the last record is another one.
    CleanedBatchEndMoves,
    /// The cleaner deletes segments before the name of the one that replaces them is durable.
    ForgetSwapSync,
    /// A clean stop leaves the last entry of the active segment's time index out.
    StopWithoutTimeEntry,
    /// A rebalance of a classic group ends in the generation before it.
    KeepGeneration,
    /// A classic group that becomes a consumer group counts its epochs anew.
    UpgradeBeginsAnew,
    /// A SyncGroup of an earlier generation is taken.
    SyncIgnoresGeneration,
    /// A commit is taken from whoever makes it.
    CommitWithoutFencing,
    /// A commit is answered before its records are durable.
    CommitBeforeDurable,
    /// When groups are read back, the last commit is left out.
    ForgetLastCommit,
    /// A commit that goes back is answered and stored, and does not take effect.
    CommitOnlyForward,
    /// A static member's old self is taken for its new one.
    OldSelfNotFenced,
    /// A partition of a consumer group is to be owned by two members.
    AssignTwice,
    /// A partition is given to a member while another has it.
    GiveBeforeRevoke,
    /// A heartbeat is taken whatever epoch it names.
    IgnoreMemberEpoch,
    /// A rebalance has no deadline, and waits for members that are gone.
    RebalanceNeverEnds,
    /// A member whose session has ended stays.
    DeadMemberStays,
    /// Batches are served that were not checked in this process.
    SkipCrcAtFirstServe,
    /// A damaged batch is refused, and nobody is told.
    HideDamage,
    /// Recovery cuts a torn tail, and nobody is told.
    HideCut,
    /// A log that keeps failing to reopen says so each time.
    ReportEachReopening,
    /// A log cannot be read while it is to be reopened.
    UnreadableWhileReopening,
    /// Recovery takes a segment that cannot be read for one that ends there.
    UnreadableIsTorn,
    /// The first batch of a segment leaves an offset out.
    SkipAnOffset,
    /// A produce is answered with the offset before its own.
    AnswerOffsetBefore,
    /// Recovery cuts off a sound batch along with the torn one behind it.
    CutOneBatchMore,
    /// A start knows nothing of records that were deleted.
    ForgetLogStart,
    /// A change of configs is answered before its record is durable.
    ConfigBeforeDurable,
    /// A topic is there before its record is durable.
    CreateBeforeDurable,
    /// A leader epoch ends one offset before it does.
    EpochEndOff,
    /// Partitions go on waiting for a fetch whose connection is gone.
    ForgetToUnpark,
    /// ListOffsets takes the log's start for its end.
    LatestIsEarliest,
    /// A fetch tells a high watermark that is one too high.
    HighWatermarkBeyondEnd,
    /// A failed write is taken for a whole one.
    BelieveFailedWrite,
    /// The last record that a start finds is shown only once somebody waits for an append.
    HideLastUntilProduce,
    /// The broker does not start where the last process did not stop gracefully.
    RefuseUncleanStart,
    /// A message that is too large is a panic.
    PanicOnLargeMessage,
    /// A log that a failed flush has put out of service stays so.
    NeverReopen,
    /// Retention takes a segment more than is expired.
    ExpireOneMore,
    /// Retention takes nothing.
    NothingExpires,
    /// Under `os`, `flush.messages` flushes nothing.
    IgnoreFlushMessages,
    /// Under `os`, `flush.ms` flushes nothing.
    IgnoreFlushMs,
}

/// Which bug is planted, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs(#[cfg(feature = "bugs")] Option<Bug>);

impl Bugs {
    /// No bug: the only value there is without the feature.
    pub const NONE: Self = Self(
        #[cfg(feature = "bugs")]
        None,
    );

    /// Plants a bug.
    #[cfg(feature = "bugs")]
    #[must_use]
    pub const fn plant(bug: Bug) -> Self {
        Self(Some(bug))
    }

    /// Whether this bug is planted. Always false, and known so to the compiler, without the
    /// feature.
    #[must_use]
    pub fn has(self, bug: Bug) -> bool {
        #[cfg(feature = "bugs")]
        return self.0 == Some(bug);
        #[cfg(not(feature = "bugs"))]
        {
            let _ = bug;
            false
        }
    }
}

#[cfg(feature = "bugs")]
impl Bug {
    /// Every bug, with the name by which the simulator's command line knows it.
    pub const ALL: [(&'static str, Self); 67] = [
        ("ack-before-flush", Self::AckBeforeFlush),
        ("skip-crc-at-recovery", Self::SkipCrcAtRecovery),
        ("retry-failed-flush", Self::RetryFailedFlush),
        ("forget-directory-sync", Self::ForgetDirectorySync),
        ("register-after-check", Self::RegisterAfterCheck),
        ("index-entry-off", Self::IndexEntryOff),
        ("append-duplicates", Self::AppendDuplicates),
        ("duplicate-at-log-end", Self::DuplicateAtLogEnd),
        ("skip-sequence-check", Self::SkipSequenceCheck),
        ("ignore-producer-epoch", Self::IgnoreProducerEpoch),
        ("forget-producers-at-start", Self::ForgetProducersAtStart),
        ("producer-id-before-durable", Self::ProducerIdBeforeDurable),
        ("forget-send-order", Self::ForgetSendOrder),
        ("unanswered-is-failed", Self::UnansweredIsFailed),
        ("ignore-reset-policy", Self::IgnoreResetPolicy),
        ("number-retries-anew", Self::NumberRetriesAnew),
        ("outcome-offset-off", Self::OutcomeOffsetOff),
        ("make-up-offsets", Self::MakeUpOffsets),
        ("flush-too-early", Self::FlushTooEarly),
        ("hand-out-whole-batches", Self::HandOutWholeBatches),
        ("cut-values", Self::CutValues),
        (
            "serve-beyond-high-watermark",
            Self::ServeBeyondHighWatermark,
        ),
        ("leave-out-unknown-groups", Self::LeaveOutUnknownGroups),
        ("cleaner-keeps-first", Self::CleanerKeepsFirst),
        ("cleaner-drops-above-map", Self::CleanerDropsAboveMap),
        ("drop-tombstones-early", Self::DropTombstonesEarly),
        ("cleaned-batch-end-moves", Self::CleanedBatchEndMoves),
        ("forget-swap-sync", Self::ForgetSwapSync),
        ("stop-without-time-entry", Self::StopWithoutTimeEntry),
        ("keep-generation", Self::KeepGeneration),
        ("upgrade-begins-anew", Self::UpgradeBeginsAnew),
        ("sync-ignores-generation", Self::SyncIgnoresGeneration),
        ("commit-without-fencing", Self::CommitWithoutFencing),
        ("commit-before-durable", Self::CommitBeforeDurable),
        ("forget-last-commit", Self::ForgetLastCommit),
        ("commit-only-forward", Self::CommitOnlyForward),
        ("old-self-not-fenced", Self::OldSelfNotFenced),
        ("assign-twice", Self::AssignTwice),
        ("give-before-revoke", Self::GiveBeforeRevoke),
        ("ignore-member-epoch", Self::IgnoreMemberEpoch),
        ("rebalance-never-ends", Self::RebalanceNeverEnds),
        ("dead-member-stays", Self::DeadMemberStays),
        ("skip-crc-at-first-serve", Self::SkipCrcAtFirstServe),
        ("hide-damage", Self::HideDamage),
        ("hide-cut", Self::HideCut),
        ("report-each-reopening", Self::ReportEachReopening),
        ("unreadable-while-reopening", Self::UnreadableWhileReopening),
        ("unreadable-is-torn", Self::UnreadableIsTorn),
        ("skip-an-offset", Self::SkipAnOffset),
        ("answer-offset-before", Self::AnswerOffsetBefore),
        ("cut-one-batch-more", Self::CutOneBatchMore),
        ("forget-log-start", Self::ForgetLogStart),
        ("config-before-durable", Self::ConfigBeforeDurable),
        ("create-before-durable", Self::CreateBeforeDurable),
        ("epoch-end-off", Self::EpochEndOff),
        ("forget-to-unpark", Self::ForgetToUnpark),
        ("latest-is-earliest", Self::LatestIsEarliest),
        ("high-watermark-beyond-end", Self::HighWatermarkBeyondEnd),
        ("believe-failed-write", Self::BelieveFailedWrite),
        ("hide-last-until-produce", Self::HideLastUntilProduce),
        ("refuse-unclean-start", Self::RefuseUncleanStart),
        ("panic-on-large-message", Self::PanicOnLargeMessage),
        ("never-reopen", Self::NeverReopen),
        ("expire-one-more", Self::ExpireOneMore),
        ("nothing-expires", Self::NothingExpires),
        ("ignore-flush-messages", Self::IgnoreFlushMessages),
        ("ignore-flush-ms", Self::IgnoreFlushMs),
    ];
}
