//! The real program, run as a person or a script runs it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Nothing here takes this long; a test that hangs must say so.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments.
pub(crate) fn odradek(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_odradek"));
    command.args(args);
    command
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// It must have ended with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// It must have failed with this code.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Standard output, each line as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        self.stdout.lines().map(parse).collect()
    }
}

/// Runs the program to its end.
pub(crate) fn run(args: &[&str]) -> Ran {
    run_with(args, b"")
}

/// Runs the program to its end, with something on its standard input.
pub(crate) fn run_with(args: &[&str], input: &[u8]) -> Ran {
    finish(odradek(args), input)
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A program that ends early does not read everything.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let status = wait(&mut child);
    writing.join().unwrap();
    Ran {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end of a process, but not for ever.
#[track_caller]
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the program does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A broker: the program's `serve`. Killed when it is dropped.
pub(crate) struct Serve {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    /// What it printed when it was ready.
    pub(crate) line: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where its data is.
    pub(crate) data_dir: PathBuf,
}

impl Serve {
    /// Starts on a free port.
    #[track_caller]
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// Starts on a free port with more arguments.
    #[track_caller]
    pub(crate) fn start_with(data_dir: &Path, args: &[&str]) -> Self {
        let dir = data_dir.to_str().unwrap();
        let mut command = odradek(&["serve", "--listen", "127.0.0.1:0", "--data-dir", dir]);
        let mut child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = read_all(child.stderr.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            wait(&mut child);
            panic!("it did not start: {}", stderr.join().unwrap());
        }
        let address = line
            .split([' ', ','])
            .find_map(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        Self {
            child,
            stdout,
            stderr: Some(stderr),
            line,
            address,
            data_dir: data_dir.to_owned(),
        }
    }

    /// Its address for `--bootstrap`.
    pub(crate) fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// Runs a command of the program against it.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs a command of the program against it, with something on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        run_with(&[args, &["--bootstrap", &self.bootstrap()]].concat(), input)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Asks it to stop with SIGTERM and waits for its end. The exit code, and its logs.
    #[track_caller]
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end. The exit code, and its logs.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let status = wait(&mut self.child);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "one line on standard output, and no more");
        let logs = self.stderr.take().map(|thread| thread.join().unwrap());
        (status.code(), logs.unwrap_or_default())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
