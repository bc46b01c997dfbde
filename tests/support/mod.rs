//! The real program, run as a person or a script runs it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing here takes this long; a test that hangs must say so.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments.
pub(crate) fn odradek(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_odradek"));
    command.args(args);
    command
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
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
