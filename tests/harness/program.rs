//! `odradek serve` as a process: started, killed, signalled, listened to.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// No start, stop or log line takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker that runs.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
    first_line: String,
    log: Arc<Mutex<String>>,
}

/// A broker that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Standard error.
    pub(crate) log: String,
}

/// How to start one.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    data_dir: PathBuf,
    listen: String,
    more: Vec<String>,
}

impl Launch {
    /// On this directory, on a free port of 127.0.0.1.
    pub(crate) fn on(data_dir: impl AsRef<Path>) -> Self {
        Self {
            data_dir: data_dir.as_ref().to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            more: Vec::new(),
        }
    }

    pub(crate) fn listen(mut self, address: &str) -> Self {
        self.listen = address.to_owned();
        self
    }

    /// Sets a broker config.
    pub(crate) fn set(self, key: &str, value: impl std::fmt::Display) -> Self {
        self.arg("--set").arg(format!("{key}={value}"))
    }

    pub(crate) fn arg(mut self, argument: impl Into<String>) -> Self {
        self.more.push(argument.into());
        self
    }

    /// Starts it and waits until it serves.
    #[track_caller]
    pub(crate) fn start(&self) -> Program {
        match self.try_start() {
            Ok(program) => program,
            Err(ended) => panic!("it did not start: {}\n{}", ended.status, ended.log),
        }
    }

    /// Starts it and waits until it serves or has ended.
    pub(crate) fn try_start(&self) -> Result<Program, Ended> {
        let (child, log, lines) = self.spawn();
        let mut child = Guard(Some(child));
        match lines.recv_timeout(PATIENCE) {
            Ok(first_line) => {
                let address = first_line
                    .strip_prefix("odradek listening on ")
                    .and_then(|rest| rest.split(',').next())
                    .and_then(|address| address.parse().ok())
                    .unwrap_or_else(|| panic!("no address in {first_line:?}"));
                Ok(Program {
                    child: child.0.take().unwrap(),
                    address,
                    first_line,
                    log,
                })
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.0.take().unwrap().wait().unwrap();
                let log = settled(&log);
                Err(Ended { status, log })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("no line in {PATIENCE:?}; its log:\n{}", log.lock().unwrap())
            }
        }
    }

    /// Starts it and kills it after `delay`, wherever it is by then.
    pub(crate) fn start_and_kill(&self, delay: Duration) {
        let (mut child, ..) = self.spawn();
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn spawn(&self) -> (Child, Arc<Mutex<String>>, mpsc::Receiver<String>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_odradek"))
            .arg("serve")
            .args([OsStr::new("--data-dir"), self.data_dir.as_os_str()])
            .args(["--listen", &self.listen])
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (to, into) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || collect(to, &into));
        let stdout = child.stdout.take().unwrap();
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The test may be gone.
                let _ = line.send(text);
            }
        });
        (child, log, lines)
    }
}

/// Keeps a failing test from leaving a process behind.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn collect(mut from: impl Read, into: &Mutex<String>) {
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        into.lock()
            .unwrap()
            .push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

/// The log of a process that has ended, once the reader has caught up.
fn settled(log: &Arc<Mutex<String>>) -> String {
    let deadline = Instant::now() + Duration::from_secs(5);
    // The reader holds the other reference until the pipe is closed.
    while Arc::strong_count(log) > 1 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    log.lock().unwrap().clone()
}

impl Program {
    /// Where clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The line on standard output.
    pub(crate) fn first_line(&self) -> &str {
        &self.first_line
    }

    /// Standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The first line of the log that holds all of these.
    #[track_caller]
    pub(crate) fn await_log(&self, parts: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if let Some(line) = find_line(&log, parts) {
                return line.to_owned();
            }
            assert!(
                Instant::now() < deadline,
                "no line with {parts:?} in\n{log}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process is there.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL. When this returns, the process is gone.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// SIGKILL, from wherever the program is held. It is not waited for.
    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        while self.is_running() {
            assert!(
                Instant::now() < deadline,
                "it did not end; its log:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        self.end()
    }

    /// SIGTERM, and then it must end by itself and well.
    #[track_caller]
    pub(crate) fn stop(self) -> Ended {
        self.send(Signal::TERM);
        let ended = self.wait();
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.log);
        ended
    }

    fn end(&mut self) -> Ended {
        let status = self.child.wait().unwrap();
        Ended {
            status,
            log: settled(&self.log),
        }
    }

    /// A figure of `/proc/PID/status` in KiB: `VmRSS`, `VmHWM`.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory_kib(&self, field: &str) -> u64 {
        proc_number(&self.proc_file("status"), field)
    }

    /// Bytes that the process has asked the system to read, from files and sockets, so far.
    #[cfg(target_os = "linux")]
    pub(crate) fn bytes_read(&self) -> u64 {
        proc_number(&self.proc_file("io"), "rchar")
    }

    #[cfg(target_os = "linux")]
    fn proc_file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }
}

fn proc_number(text: &str, field: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .unwrap_or_else(|| panic!("no {field} in {text}"));
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The first line that holds all parts.
pub(crate) fn find_line<'a>(log: &'a str, parts: &[&str]) -> Option<&'a str> {
    log.lines()
        .find(|line| parts.iter().all(|part| line.contains(part)))
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}---", self.address, self.log());
        }
    }
}
