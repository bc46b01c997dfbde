//! What the program does while its disk is recorded: several lives, each ended in its own way,
//! under producers, a reader, a client that trims a partition, and one that creates and deletes
//! topics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use odradek_client_tests::chance::Chance;
use odradek_client_tests::disk::{Disk, History, Image};
use odradek_client_tests::flushes::Flushes;
use odradek_client_tests::fuse::DiskServer;
use odradek_client_tests::mount::{Mounted, make_ext4};
use odradek_client_tests::program::{Options, Program, is_clean_stop, is_kafka};
use odradek_client_tests::records::TestRecord;
use odradek_client_tests::wire::{Connection, LATEST, WireError};
use odradek_client_tests::work_dir::WorkDir;

use crate::promises::{PARTITIONS, Promises, TOPIC, TRIMMED, record_at};

const DISK_BYTES: u64 = 384 << 20;

/// How a life of the program ends, with its clients still sending.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Stop,
}

/// Settings under which segments roll within seconds.
pub(crate) fn options(folder: &std::path::Path, log_file: std::path::PathBuf) -> Options {
    let mut options = Options::new(folder)
        .set("log.segment.bytes", 1 << 20)
        .set("auto.create.topics.enable", false);
    options.log_file = log_file;
    if is_kafka() {
        // Kafka acknowledges before it flushes unless told otherwise.
        options = options.set("log.flush.interval.messages", 1);
    }
    options
}

/// Runs the program through `lives` on a recorded disk.
pub(crate) fn record_history(
    server: &DiskServer,
    work: &WorkDir,
    flushes: Flushes,
    lives: &[(Duration, End)],
) -> (History, Promises) {
    let disk = Disk::new(Image::zeroed(DISK_BYTES));
    let served = server.add(disk.clone());
    make_ext4(served.path());
    disk.start_history();
    let mounted = Mounted::new(served.path(), &work.join("live")).expect("a fresh ext4 mounts");
    let mut options = options(mounted.folder(), work.join("live.log"));
    options.flushes = flushes;

    let promises = Mutex::new(Promises::default());
    for (number, (duration, end)) in lives.iter().enumerate() {
        let program =
            Program::start(&options).unwrap_or_else(|error| panic!("life {number}: {error}"));
        if number == 0 {
            create_steady_topic(&program);
        }
        live(program, &disk, &promises, number, *duration, *end);
    }
    let history = disk.history();
    drop(mounted);
    (
        history,
        promises
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    )
}

fn create_steady_topic(program: &Program) {
    let mut connection =
        Connection::open(program.address()).expect("the program accepts connections");
    connection
        .create_topic(TOPIC, PARTITIONS, &[])
        .expect("a topic can be created");
}

/// One life: clients start, work for `duration`, and are still at it when the program ends.
fn live(
    program: Program,
    disk: &Disk,
    promises: &Mutex<Promises>,
    number: usize,
    duration: Duration,
    end: End,
) {
    let ending = AtomicBool::new(false);
    let life = Life {
        address: program.address(),
        disk,
        promises,
        ending: &ending,
        number,
    };
    std::thread::scope(|threads| {
        for partition in 0..PARTITIONS {
            threads.spawn(move || {
                life.run("producer", |connection| life.produce(connection, partition))
            });
        }
        threads.spawn(move || life.run("reader", |connection| life.read(connection)));
        threads.spawn(move || life.run("trimmer", |connection| life.trim(connection)));
        threads.spawn(move || life.run("topics", |connection| life.come_and_go(connection)));
        std::thread::sleep(duration);
        ending.store(true, Ordering::SeqCst);
        match end {
            End::Kill => program.kill(),
            End::Stop => {
                let status = program.stop();
                assert!(
                    is_clean_stop(status),
                    "the program stops cleanly on SIGTERM: {status}"
                );
            }
        }
    });
}

#[derive(Clone, Copy)]
struct Life<'a> {
    address: std::net::SocketAddr,
    disk: &'a Disk,
    promises: &'a Mutex<Promises>,
    /// The program is being ended: a broken connection is no surprise any more.
    ending: &'a AtomicBool,
    number: usize,
}

impl Life<'_> {
    /// Runs one client until the program ends. Any error before that is a failure.
    fn run(&self, name: &str, work: impl FnOnce(&mut Connection) -> Result<(), WireError>) {
        let result =
            Connection::open(self.address).and_then(|mut connection| work(&mut connection));
        if let Err(error) = result
            && !self.ending.load(Ordering::SeqCst)
        {
            panic!("{name} in life {}: {error:?}", self.number);
        }
    }

    fn is_over(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
            && matches!(
                Connection::open(self.address),
                Err(WireError::Connection(_))
            )
    }

    fn promise(&self, record: impl FnOnce(&mut Promises, usize)) {
        // Counted after the answer arrived: the promise rests on these events or fewer.
        let events = self.disk.event_count();
        record(
            &mut self.promises.lock().unwrap_or_else(PoisonError::into_inner),
            events,
        );
    }

    fn produce(&self, connection: &mut Connection, partition: i32) -> Result<(), WireError> {
        let mut chance = Chance::of(self.number as u64, partition as u64);
        let mut next = connection.list_offset(TOPIC, partition, LATEST)?;
        let promised = self
            .promises
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end(partition, usize::MAX);
        assert!(
            next >= promised,
            "{TOPIC}-{partition} ends at {next} after a restart; {promised} was acknowledged"
        );
        loop {
            // Mostly small batches, and now and then one that spans several index entries.
            let count = if chance.below(40) == 0 {
                400
            } else {
                1 + chance.below(12)
            } as i64;
            let records: Vec<TestRecord> = (next..next + count)
                .map(|offset| record_at(partition, offset))
                .collect();
            let base_offset = connection.produce(TOPIC, partition, &records)?;
            assert_eq!(
                base_offset, next,
                "{TOPIC}-{partition} assigns dense offsets"
            );
            next += count;
            self.promise(|promises, events| promises.records_below(partition, next, events));
        }
    }

    /// What a reader saw must not be taken back either.
    fn read(&self, connection: &mut Connection) -> Result<(), WireError> {
        let mut next = connection.list_offset(TOPIC, 0, LATEST)?;
        self.promise(|promises, events| promises.records_below(0, next, events));
        loop {
            let fetched = connection.fetch(TOPIC, 0, next, Duration::from_millis(100))?;
            if let Some(last) = fetched.records.last() {
                next = last.offset + 1;
                self.promise(|promises, events| promises.records_below(0, next, events));
            }
        }
    }

    fn trim(&self, connection: &mut Connection) -> Result<(), WireError> {
        let mut trimmed = 0;
        while !self.is_over() {
            std::thread::sleep(Duration::from_millis(150));
            let start = connection.list_offset(TOPIC, TRIMMED, LATEST)? / 2;
            if start > trimmed {
                trimmed = connection.delete_records(TOPIC, TRIMMED, start)?;
                self.promise(|promises, events| promises.nothing_below(trimmed, events));
            }
        }
        Ok(())
    }

    fn come_and_go(&self, connection: &mut Connection) -> Result<(), WireError> {
        for round in 0.. {
            if self.is_over() {
                break;
            }
            let name = format!("passing-{}-{round}", self.number);
            connection.create_topic(&name, 1, &[])?;
            self.promise(|promises, events| promises.topic_created(&name, events));
            connection.produce(&name, 0, &[record_at(0, 0)])?;
            self.promise(|promises, events| promises.topic_record_acknowledged(&name, events));
            std::thread::sleep(Duration::from_millis(100));
            if round % 2 == 0 {
                self.promise(|promises, events| promises.topic_delete_sent(&name, events));
                connection.delete_topic(&name)?;
                self.promise(|promises, events| promises.topic_deleted(&name, events));
            }
        }
        Ok(())
    }
}
