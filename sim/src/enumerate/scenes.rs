//! The small workloads that are gone through, and what a machine must still do after each crash.

use std::collections::BTreeMap;

use odradek_core::input::Endpoint;
use odradek_core::log::config::LogConfig;
use odradek_core::metadata::config::{BrokerConfig, CleanerConfig};

use super::machine::{Flow, Machine};
use crate::oracle::Check;

/// A workload: what comes first, without crashes, and what is crashed at every moment.
#[derive(Clone, Copy)]
pub struct Scene {
    /// By which name it is known.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// When the metadata log rolls.
    metadata_segment_bytes: u64,
    /// Without crashes. On a machine that has not been started yet.
    pub(super) before: fn(&mut Machine) -> Flow,
    /// With all of them.
    pub(super) act: fn(&mut Machine) -> Flow,
}

/// All of them.
pub const SCENES: &[Scene] = &[
    Scene {
        name: "first-start",
        what: "a start on an empty disk",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |_| Ok(()),
        act: Machine::start,
    },
    Scene {
        name: "create-topic",
        what: "a topic of two partitions is created",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: Machine::start,
        act: |machine| {
            machine.create("t", 2, &[])?;
            machine.settle()
        },
    },
    Scene {
        name: "append",
        what: "appends that end in the middle of sectors, in a segment that has some",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 1, &[])?;
            machine.append("t", 0, None, 300)
        },
        act: |machine| {
            machine.append("t", 0, None, 900)?;
            machine.append("t", 0, None, 10)?;
            machine.append("t", 0, None, 1_500)?;
            machine.settle()
        },
    },
    Scene {
        name: "roll",
        what: "appends across two segment rolls, with index entries",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 1, &[])?;
            for _ in 0..4 {
                machine.append("t", 0, None, 700)?;
            }
            Ok(())
        },
        act: |machine| {
            machine.append("t", 0, None, 1_100)?;
            machine.append("t", 0, None, 400)?;
            machine.append("t", 0, None, 3_600)?;
            machine.append("t", 0, None, 400)?;
            machine.settle()
        },
    },
    Scene {
        name: "group-commit",
        what: "batches that share flushes, in two partitions",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 2, &[])
        },
        act: |machine| {
            for i in 0..2 {
                for partition in [0, 1] {
                    let record = machine.record(None, 200 + i * 600);
                    machine.send_batch("t", partition, &[record])?;
                }
            }
            for _ in 0..4 {
                machine.acknowledged()?;
            }
            machine.settle()
        },
    },
    Scene {
        name: "truncate",
        what: "a start that cuts off a torn batch, and an append in its place",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 1, &[])?;
            machine.append("t", 0, None, 700)?;
            machine.settle()?;
            let torn = machine.record(None, 1_900);
            machine.send_batch("t", 0, &[torn])?;
            machine.die_half_way();
            Ok(())
        },
        act: |machine| {
            machine.start()?;
            machine.append("t", 0, None, 400)?;
            machine.settle()
        },
    },
    Scene {
        name: "delete-records",
        what: "records are deleted up to the middle of a segment, and up to the end",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 1, &[])?;
            for _ in 0..10 {
                machine.append("t", 0, None, 900)?;
            }
            Ok(())
        },
        act: |machine| {
            machine.trim("t", 0, 6)?;
            machine.settle()?;
            machine.trim("t", 0, -1)?;
            // Until the files go.
            machine.pass(2_000)?;
            machine.append("t", 0, None, 100)?;
            machine.settle()
        },
    },
    Scene {
        name: "delete-topic",
        what: "a topic is deleted, and created again",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("keep", 1, &[])?;
            machine.create("t", 1, &[])?;
            machine.append("keep", 0, None, 100)?;
            machine.append("t", 0, None, 600)
        },
        act: |machine| {
            machine.delete("t")?;
            machine.pass(2_000)?;
            machine.create("t", 1, &[])?;
            machine.append("t", 0, None, 50)?;
            machine.settle()
        },
    },
    Scene {
        name: "metadata",
        what: "configs and topics until the metadata log has rolled",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("topic", 1, &[])?;
            for _ in 0..12 {
                machine.set_config("topic", AGE, "1000000")?;
                machine.set_config("topic", AGE, "2000000")?;
            }
            Ok(())
        },
        act: |machine| {
            machine.set_config("topic", AGE, "3000000")?;
            machine.create("topic1", 1, &[("retention.bytes", "1000000000")])?;
            for i in 0..4 {
                machine.set_config("topic", AGE, &format!("{}", 4_000_000 + i))?;
            }
            machine.settle()
        },
    },
    Scene {
        name: "snapshot",
        what: "a snapshot of the metadata, and two segments below it go",
        metadata_segment_bytes: FILLING_RECORD_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("topic", 1, &[])?;
            // Until a snapshot is almost worth it, with few records: each start reads them all, and
            // each of their segments goes once there is a snapshot.
            for i in 0..2 {
                // Another one each time, or nothing is recorded.
                let replicas = format!("{i}:0,").repeat(FILLING_BYTES / 4);
                machine.set_config("topic", REPLICAS, &replicas)?;
            }
            Ok(())
        },
        act: |machine| {
            // Now little of the log is alive.
            machine.set_config("topic", REPLICAS, "0:0")?;
            // The last one with which the snapshot comes, and one behind it.
            machine.set_config("topic", AGE, "1000000")?;
            machine.set_config("topic", AGE, "2000000")?;
            machine.settle()
        },
    },
    Scene {
        name: "checkpoint",
        what: "the regular checkpoint, with appends around it",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 1, &[])?;
            machine.append("t", 0, None, 900)
        },
        act: |machine| {
            machine.pass(6_000)?;
            machine.append("t", 0, None, 700)?;
            machine.pass(6_000)?;
            machine.append("t", 0, None, 10)?;
            machine.settle()
        },
    },
    Scene {
        name: "stop",
        what: "a graceful stop, and the start after it",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            machine.create("t", 1, &[])?;
            for _ in 0..6 {
                machine.append("t", 0, None, 900)?;
            }
            Ok(())
        },
        act: |machine| {
            machine.stop()?;
            machine.start()?;
            machine.append("t", 0, None, 10)?;
            machine.settle()
        },
    },
    Scene {
        name: "clean",
        what: "the cleaner replaces segments of a compacted topic",
        metadata_segment_bytes: FEW_RECORDS_BYTES,
        before: |machine| {
            machine.start()?;
            let configs = [
                ("cleanup.policy", "compact"),
                ("min.cleanable.dirty.ratio", "0.01"),
            ];
            machine.create("t", 1, &configs)?;
            for i in 0..9 {
                let key = ["a", "b", "c"][i % 3];
                machine.append("t", 0, Some(key), 900)?;
            }
            machine.settle()
        },
        act: |machine| machine.pass(3_000),
    },
];

/// A config that the oracle holds against what was set, of a topic that it knows to last.
const AGE: &str = "message.timestamp.before.max.ms";
/// A config that may be long, and means nothing.
const REPLICAS: &str = "leader.replication.throttled.replicas";
/// So long is the one that fills the metadata log: two of them, with what else is there, are just below
/// the 16 KiB from which on the core thinks of a snapshot.
const FILLING_BYTES: usize = 7_868;
/// A segment of the metadata log that a few records fill.
const FEW_RECORDS_BYTES: u64 = 400;
/// One that takes the config that fills it.
const FILLING_RECORD_BYTES: u64 = 8_250;

/// What the broker of a scene is started with: everything is small, so that every boundary is
/// near.
pub(super) fn config(scene: &Scene) -> BrokerConfig {
    BrokerConfig {
        advertise: Some(Endpoint {
            host: "sim".to_owned(),
            port: 9092,
        }),
        auto_create_topics: false,
        metadata_segment_bytes: scene.metadata_segment_bytes,
        log: LogConfig {
            segment_bytes: 4_000,
            segment_index_bytes: 240,
            index_interval_bytes: 1_000,
            file_delete_delay_ms: 1_000,
            retention_ms: None,
            min_cleanable_dirty_ppm: 1_000_000,
            ..LogConfig::default()
        },
        cleaner: CleanerConfig {
            backoff_ms: 1_000,
            ..CleanerConfig::default()
        },
        ..BrokerConfig::default()
    }
}

/// A topic id as text.
const TOPIC_ID_CHARACTERS: usize = 22;

/// What a machine must do after a crash: start, have everything it promised, take and give a record
/// more, stop.
pub(super) fn go_on(machine: &mut Machine) -> Flow {
    let topics = machine.topics()?;
    let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
    let told = machine.told.clone();
    if let Some(missing) = told
        .created
        .iter()
        .find(|name| !names.contains(&name.as_str()))
    {
        let detail = format!("{missing} was created, and is not there any more");
        return machine.fail(Check::CreatedTopicDurable, detail);
    }
    let back = told
        .deleted
        .iter()
        .find(|name| names.contains(&name.as_str()));
    if let Some(back) = back {
        let detail = format!("{back} was deleted, and is there again");
        return machine.fail(Check::DeletedTopicStaysAway, detail);
    }
    let mut read = BTreeMap::new();
    for (topic, partitions) in &topics {
        machine.look_at_configs(topic)?;
        for partition in 0..*partitions {
            machine.read(topic, partition)?;
            machine.append(topic, partition, Some("k"), 20)?;
            let range = machine.read(topic, partition)?;
            read.insert((topic.clone(), partition), range);
        }
    }
    machine.oracle.everything_was_read(&read, &[]);
    // What was deleted waits for a while before it goes.
    machine.pass(3_000)?;
    machine.stop()?;
    nothing_left_over(machine, &topics)
}

/// Whether a directory says to which topic it belongs, or that it is on its way out. One that does not
/// say so yet, the broker leaves alone: it may be somebody else's.
fn has_an_owner(machine: &Machine, directory: &str) -> bool {
    let metadata = format!("{directory}/partition.metadata");
    let content = machine.disk().cached(&metadata.as_str().into());
    let text = content.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let mut lines = text.unwrap_or_default().lines();
    let names_a_topic = lines.any(|line| {
        let id = line.strip_prefix("topic_id: ");
        id.is_some_and(|id| id.len() == TOPIC_ID_CHARACTERS && !id.contains('\0'))
    });
    names_a_topic || directory.ends_with("-delete")
}

/// After a stop, nothing is on the disk but what belongs there.
fn nothing_left_over(machine: &mut Machine, topics: &[(String, i32)]) -> Flow {
    const FILES: &[&str] = &[
        "clean.shutdown",
        "log.checkpoint",
        "metadata.snapshot",
        "odradek.format",
    ];
    let partitions = topics
        .iter()
        .flat_map(|(topic, partitions)| (0..*partitions).map(move |p| format!("{topic}-{p}")));
    let known: Vec<String> = partitions
        .chain(["__cluster_metadata-0".to_owned()])
        .collect();
    let mut strange = Vec::new();
    for entry in machine.disk().entries(&"".into()).unwrap_or_default() {
        let name = entry.name.as_str();
        if entry.length.is_some() {
            if !FILES.contains(&name) {
                strange.push(name.to_owned());
            }
            continue;
        }
        if !known.iter().any(|known| known == name) {
            if has_an_owner(machine, name) {
                strange.push(name.to_owned());
            }
            continue;
        }
        for file in machine.disk().entries(&name.into()).unwrap_or_default() {
            let left = [".tmp", ".cleaned", ".swap", ".deleted"];
            if left.iter().any(|suffix| file.name.ends_with(suffix)) {
                strange.push(format!("{name}/{}", file.name));
            }
        }
    }
    if strange.is_empty() {
        return Ok(());
    }
    let detail = format!("left in the data directory: {}", strange.join(", "));
    machine.fail(Check::NothingLeftOver, detail)
}
