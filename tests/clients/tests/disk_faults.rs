//! The real program on a real ext4 whose device fails: it must do what the simulated one does.
//!
//! Nothing that was not flushed is acknowledged; what was acknowledged is read during the fault, after
//! it, and after a power cut that takes the page cache along.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use odradek_client_tests::chance::Chance;
use odradek_client_tests::cut::PowerCuts;
use odradek_client_tests::disk::{Disk, Faults, Image};
use odradek_client_tests::fuse::{DiskServer, ServedDisk};
use odradek_client_tests::mount::{Mounted, make_ext4};
use odradek_client_tests::program::{Options, Program};
use odradek_client_tests::records::TestRecord;
use odradek_client_tests::wire::{Connection, WireError};
use odradek_client_tests::work_dir::WorkDir;

const TOPIC: &str = "faults";
/// Kafka's KAFKA_STORAGE_ERROR.
const STORAGE_ERROR: i16 = 56;
/// What only a record that the device refuses has in it.
const DOOMED: &[u8] = b"the device refuses this very record";
/// A log is reopened with back-off; this is much longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program on a disk that can fail.
struct Site {
    // In the order in which they must go.
    program: Program,
    mounted: Mounted,
    served: ServedDisk,
    disk: Arc<Disk>,
    server: DiskServer,
    options: Options,
    work: WorkDir,
    /// Offset and value of what was acknowledged.
    acknowledged: Vec<(i64, Vec<u8>)>,
}

impl Site {
    fn new(name: &str, disk_bytes: u64) -> Self {
        let work = WorkDir::new(name);
        let server = DiskServer::mount(&work.join("disks"));
        let disk = Disk::new(Image::zeroed(disk_bytes));
        let served = server.add(disk.clone());
        make_ext4(served.path());
        disk.start_history();
        let mounted = Mounted::new(served.path(), &work.join("live")).expect("a fresh ext4 mounts");
        let mut options = Options::new(mounted.folder()).set("auto.create.topics.enable", false);
        options.log_file = work.join("program.log");
        let program = Program::start(&options).expect("the program starts");
        let mut site = Self {
            program,
            mounted,
            served,
            disk,
            server,
            options,
            work,
            acknowledged: Vec::new(),
        };
        site.connect()
            .create_topic(TOPIC, 1, &[])
            .expect("a topic can be created");
        for number in 0..5 {
            site.append(format!("before {number}").as_bytes())
                .expect("nothing is wrong yet");
        }
        site
    }

    fn connect(&self) -> Connection {
        Connection::open(self.program.address()).expect("the program accepts connections")
    }

    fn append(&mut self, value: &[u8]) -> Result<i64, WireError> {
        let record = TestRecord {
            key: None,
            value: Some(value.to_vec()),
            headers: Vec::new(),
        };
        let offset = self.connect().produce(TOPIC, 0, &[record])?;
        self.acknowledged.push((offset, value.to_vec()));
        Ok(offset)
    }

    /// Appends until it is acknowledged.
    fn append_in_the_end(&mut self, value: &[u8]) {
        let began = Instant::now();
        while let Err(error) = self.append(value) {
            assert!(
                began.elapsed() < PATIENCE,
                "the fault is over, and still: {error:?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Everything that was acknowledged is read where it was said to be.
    fn read_all(&self) {
        let fetched = self.connect().fetch(TOPIC, 0, 0, Duration::ZERO);
        let records = fetched.expect("the partition stays readable").records;
        for (offset, value) in &self.acknowledged {
            let found = records.iter().find(|stored| stored.offset == *offset);
            let found = found.and_then(|stored| stored.record.value.as_deref());
            assert_eq!(found, Some(&value[..]), "what was acknowledged at {offset}");
        }
        let dense = records.iter().enumerate();
        for (number, stored) in dense {
            assert_eq!(stored.offset, number as i64, "offsets are dense");
        }
    }

    /// Kills the program, cuts the power, and reads everything on what is left.
    fn lose_power(self) {
        let Self {
            program,
            mounted,
            served,
            disk,
            server,
            mut options,
            work,
            acknowledged,
        } = self;
        let history = disk.history();
        disk.set_faults(Faults::default());
        program.kill();
        drop(mounted);
        drop(served);
        for seed in 0..4 {
            let cut = history.events.len();
            let image = PowerCuts::new(&history).image(cut, &mut Chance::new(seed));
            let disk = Disk::new(image);
            let served = server.add(disk.clone());
            let mounted =
                Mounted::new(served.path(), &work.join("image")).expect("the journal is replayed");
            options.data_dir = mounted.folder().join("data");
            let program = Program::start(&options).expect("the program starts again");
            let site = Reader(&program);
            site.has(&acknowledged);
            program.kill();
        }
        // Its folder cannot go before what is mounted in it.
        drop(server);
        drop(work);
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.options.log_file).expect("the program's log is there")
    }
}

struct Reader<'a>(&'a Program);

impl Reader<'_> {
    fn has(&self, acknowledged: &[(i64, Vec<u8>)]) {
        let mut connection =
            Connection::open(self.0.address()).expect("the program accepts connections");
        let fetched = connection
            .fetch(TOPIC, 0, 0, Duration::ZERO)
            .expect("the partition can be read");
        for (offset, value) in acknowledged {
            let mut records = fetched.records.iter();
            let found = records.find(|stored| stored.offset == *offset);
            let found = found.and_then(|stored| stored.record.value.as_deref());
            assert_eq!(found, Some(&value[..]), "what was acknowledged at {offset}");
        }
    }
}

#[test]
fn a_write_that_the_device_refuses_is_never_acknowledged_and_the_log_comes_back() {
    let mut site = Site::new("refused-write", 64 << 20);
    site.disk.set_faults(Faults {
        refused_content: Some(DOOMED.to_vec()),
        ..Faults::default()
    });
    match site.append(DOOMED) {
        Err(WireError::Code(STORAGE_ERROR)) => {}
        other => panic!("the device refused it, and the answer is {other:?}"),
    }
    assert!(site.disk.refused() > 0, "the fault struck");
    site.read_all();
    site.disk.set_faults(Faults::default());
    site.append_in_the_end(b"after");
    site.read_all();
    site.lose_power();
}

#[test]
fn a_flush_that_the_device_refuses_leaves_the_partition_readable() {
    let mut site = Site::new("refused-flush", 64 << 20);
    site.disk.set_faults(Faults {
        refuses_flushes: true,
        ..Faults::default()
    });
    match site.append(b"lost") {
        Err(WireError::Code(STORAGE_ERROR)) => {}
        other => panic!("the device refused its flush, and the answer is {other:?}"),
    }
    assert!(site.disk.refused() > 0, "the fault struck");
    // ext4 has aborted its journal: nothing can be written until it is mounted again.
    site.disk.set_faults(Faults::default());
    let probe = fs::write(site.mounted.folder().join("probe"), b"probe");
    let is_read_only = probe.is_err();
    site.read_all();
    if is_read_only {
        assert!(
            site.append(b"still").is_err(),
            "the filesystem is read-only"
        );
        // Long enough for several tries to reopen the log.
        std::thread::sleep(Duration::from_secs(3));
        let log = site.log();
        let of_this_log = format!("{TOPIC}-0 ");
        let said = log
            .lines()
            .filter(|line| line.contains(&of_this_log) && line.contains("read-only"));
        assert_eq!(said.count(), 1, "it is said once:\n{log}");
        site.read_all();
    } else {
        site.append_in_the_end(b"after");
    }
    site.lose_power();
}

#[test]
fn a_device_that_stalls_delays_the_acknowledgement_and_loses_nothing() {
    let mut site = Site::new("stall", 64 << 20);
    let delay = Duration::from_secs(2);
    site.disk.set_faults(Faults {
        flush_delay: delay,
        ..Faults::default()
    });
    let began = Instant::now();
    site.append(b"slow").expect("a slow disk is no error");
    assert!(
        began.elapsed() >= delay,
        "acknowledged before it was flushed"
    );
    site.disk.set_faults(Faults::default());
    site.append(b"after").expect("the disk is fast again");
    site.read_all();
    site.lose_power();
}

#[test]
fn a_full_disk_refuses_records_stays_readable_and_takes_them_again_when_there_is_room() {
    let mut site = Site::new("full-disk", 64 << 20);
    let ballast = site.mounted.folder().join("ballast");
    // As much as there is, and a bit at a time at the end.
    let mut size = 1 << 20;
    let mut held = Vec::new();
    while size >= 4096 {
        let path = ballast.with_extension(held.len().to_string());
        let written = fs::write(&path, vec![7; size]);
        held.push(path);
        if written.is_err() {
            size /= 4;
        }
    }
    let refused = (0..200).find_map(|number| {
        let value = vec![number as u8; 4_000];
        site.append(&value).err()
    });
    match refused {
        Some(WireError::Code(STORAGE_ERROR)) => {}
        other => panic!("the disk is full, and the answer is {other:?}"),
    }
    site.read_all();
    for path in held {
        fs::remove_file(path).expect("the ballast can go");
    }
    site.append_in_the_end(b"after");
    site.read_all();
    site.lose_power();
}
