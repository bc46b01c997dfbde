//! The program under test, started as a person would start it.
//!
//! Two environment variables choose it: `ODRADEK_BIN` is the path of the `odradek` program;
//! `KAFKA_REFERENCE`, a folder of Apache Kafka's jars, puts Kafka in its place, to see whether a
//! test asks for more than Kafka does.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::flushes::Flushes;
use crate::wire::Connection;

/// From the start of the process to its start-up line. Recovery of the small logs of these tests
/// takes milliseconds; this is for a machine that does something else as well.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where its data is, or will be.
    pub data_dir: PathBuf,
    /// Its log is appended to this file; a failure to start shows the end of it.
    pub log_file: PathBuf,
    /// Kafka's names and values, as for `--set`.
    pub settings: Vec<(&'static str, String)>,
    /// Whether its flushes reach the disk.
    pub flushes: Flushes,
    /// Where it listens; on a free port of the loopback interface if nothing is said.
    pub listen: Option<SocketAddr>,
}

impl Options {
    /// A program with default settings whose data and log are in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            data_dir: folder.join("data"),
            log_file: folder.join("program.log"),
            settings: Vec::new(),
            flushes: Flushes::Honest,
            listen: None,
        }
    }

    /// With one more setting.
    pub fn set(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.push((key, value.to_string()));
        self
    }
}

/// A running program. Killed when dropped.
pub struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    /// Starts it and waits until it says that it listens.
    ///
    /// # Errors
    /// It ended, or said nothing in time: what it logged last.
    pub fn start(options: &Options) -> Result<Self, String> {
        match std::env::var_os("KAFKA_REFERENCE") {
            Some(jars) => start_kafka(Path::new(&jars), options),
            None => start_odradek(options),
        }
    }

    /// Starts Apache Kafka, whatever the environment says: for what the program's own commands make
    /// of it.
    ///
    /// # Errors
    /// It did not start: what it logged last.
    pub fn start_apache_kafka(options: &Options) -> Result<Self, String> {
        start_kafka(&crate::dump_log::jars(), options)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The codec that librdkafka uses with this program when it is told to use `codec`. It knows the age of a broker by
    /// its APIs, and silently sends plain batches instead of lz4 to one that has no FindCoordinator.
    pub fn codec_of_librdkafka(&self, codec: &'static str) -> &'static str {
        const FIND_COORDINATOR: i16 = 10;
        let has_coordinators = Connection::open(self.address)
            .and_then(|mut connection| connection.serves(FIND_COORDINATOR))
            .expect("the program says which APIs it serves");
        if codec == "lz4" && !has_coordinators {
            "none"
        } else {
            codec
        }
    }

    /// SIGKILL: what it had handed to the operating system stays, what it had in memory is gone.
    pub fn kill(mut self) {
        self.child
            .kill()
            .expect("a child of this process can be killed");
        self.child
            .wait()
            .expect("a child of this process can be waited for");
    }

    /// SIGTERM, and the wait for its end.
    pub fn stop(mut self) -> ExitStatus {
        let id = i32::try_from(self.child.id()).expect("process ids are positive");
        // SAFETY: a plain call; the child has not been waited for, so its id is still its own.
        assert_eq!(
            unsafe { libc::kill(id, libc::SIGTERM) },
            0,
            "a child of this process can be signalled"
        );
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self
                .child
                .try_wait()
                .expect("a child of this process can be waited for")
            {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "the program did not stop within a minute of SIGTERM"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended already, which is what is wanted.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Whether a stop on SIGTERM went as it should. Java's virtual machine ends with 128 + 15 by
/// design.
pub fn is_clean_stop(status: ExitStatus) -> bool {
    status.success()
        || (is_kafka() && (status.code() == Some(143) || status.signal() == Some(libc::SIGTERM)))
}

/// Whether Apache Kafka stands in for the program under test.
pub fn is_kafka() -> bool {
    std::env::var_os("KAFKA_REFERENCE").is_some()
}

/// The program under test, with no arguments yet.
pub fn odradek() -> Command {
    let program = std::env::var_os("ODRADEK_BIN").expect(
        "ODRADEK_BIN names the program under test; tests/clients/run builds it and sets this",
    );
    Command::new(program)
}

fn start_odradek(options: &Options) -> Result<Program, String> {
    let listen = options
        .listen
        .map_or_else(|| "127.0.0.1:0".to_owned(), |address| address.to_string());
    let mut command = odradek();
    command
        .args(["serve", "--listen", &listen])
        .args(["--durability", "fsync", "--data-dir"])
        .arg(&options.data_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(append_to(&options.log_file));
    for (key, value) in &options.settings {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    options.flushes.apply(&mut command);
    let mut child = command.spawn().expect("ODRADEK_BIN can be run");

    let output = child.stdout.take().expect("its output is piped");
    let (line_sender, line) = mpsc::channel();
    // The thread goes on reading, so that the program never waits for a full pipe, and ends with
    // it.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _nobody_waits_for_later_lines = line_sender.send(line);
        }
    });
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match line.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(address) = first_address(&line) {
                    return Ok(Program { child, address });
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ended = child.kill();
                let _ended = child.wait();
                return Err(format!(
                    "no start-up line in {START_TIMEOUT:?}; its log: {}",
                    tail(&options.log_file)
                ));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child
                    .wait()
                    .expect("a child of this process can be waited for");
                return Err(format!(
                    "it ended at start, {status}; its log: {}",
                    tail(&options.log_file)
                ));
            }
        }
    }
}

/// The first `IP:PORT` among the words of a line.
fn first_address(line: &str) -> Option<SocketAddr> {
    line.split_whitespace().find_map(|word| {
        word.trim_matches(|c: char| !c.is_alphanumeric() && c != '[')
            .parse()
            .ok()
    })
}

/// One KRaft node, set up like the reference broker of the client suites.
fn start_kafka(jars: &Path, options: &Options) -> Result<Program, String> {
    let address = free_address();
    let controller = free_address();
    let data_dir = options.data_dir.to_string_lossy();
    let mut properties = format!(
        "process.roles=broker,controller\nnode.id=0\ncontroller.quorum.voters=0@{controller}\n\
         listeners=PLAINTEXT://{address},CONTROLLER://{controller}\nadvertised.listeners=PLAINTEXT://{address}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={data_dir}\noffsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n"
    );
    for (key, value) in &options.settings {
        properties.push_str(&format!("{key}={value}\n"));
    }
    let properties_file = options.data_dir.with_extension("properties");
    std::fs::write(&properties_file, properties).expect("Kafka's settings can be written");
    let class_path = format!("{}/*", jars.display());
    let java = |main: &[&str]| {
        let mut command = Command::new("java");
        command
            .args(["-Xmx1g", "-cp", &class_path])
            .args(main)
            .arg(&properties_file);
        command
            .stdin(Stdio::null())
            .stdout(append_to(&options.log_file))
            .stderr(append_to(&options.log_file));
        options.flushes.apply(&mut command);
        command
    };
    if !options.data_dir.join("meta.properties").exists() {
        let format = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "AAAAAAAAAAAAAAAAAAAAAQ",
            "-c",
        ];
        let formatted = java(&format).status().expect("java can be run");
        assert!(
            formatted.success(),
            "Kafka formats its folder: {}",
            tail(&options.log_file)
        );
    }
    let mut child = java(&["kafka.Kafka"]).spawn().expect("java can be run");
    let deadline = Instant::now() + START_TIMEOUT;
    while TcpStream::connect(address).is_err() {
        if child
            .try_wait()
            .expect("a child of this process can be waited for")
            .is_some()
            || Instant::now() > deadline
        {
            let _ended = child.kill();
            return Err(format!(
                "Kafka did not start; its log: {}",
                tail(&options.log_file)
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // It accepts connections before it leads its partitions.
    std::thread::sleep(Duration::from_secs(2));
    Ok(Program { child, address })
}

/// A port that was free a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("the loopback interface has a free port")
}

fn append_to(path: &Path) -> File {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("the program's log file can be opened")
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::first_address;

    #[test]
    fn the_address_is_found_wherever_it_stands_in_the_start_up_line() {
        let expected = "127.0.0.1:9092".parse().ok();
        assert_eq!(
            first_address("odradek listening on 127.0.0.1:9092, data in /tmp/x (fsync)"),
            expected
        );
        assert_eq!(first_address("address=127.0.0.1:9092 data=/tmp"), None);
        assert_eq!(first_address("listening (127.0.0.1:9092)"), expected);
        assert_eq!(first_address("nothing 12:30 here"), None);
    }
}
