//! A broker, and the program's other commands run against it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::program::{Ended, Launch, Program};
use crate::support::{Ran, run_with};

/// The program's `serve`. Killed when it is dropped.
pub(crate) struct Serve {
    program: Program,
    /// What it printed when it was ready.
    pub(crate) line: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Serve {
    /// Starts on a free port and an empty directory, which goes with what is returned.
    #[track_caller]
    pub(crate) fn on_a_new_directory() -> (TempDir, Self) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let serve = Self::start(dir.path());
        (dir, serve)
    }

    /// Starts on a free port.
    #[track_caller]
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::launch(&Launch::on(data_dir))
    }

    /// Starts on a free port with more arguments.
    #[track_caller]
    pub(crate) fn start_with(data_dir: &Path, args: &[&str]) -> Self {
        let launch = args
            .iter()
            .fold(Launch::on(data_dir), |launch, arg| launch.arg(*arg));
        Self::launch(&launch)
    }

    /// Starts on all interfaces.
    #[track_caller]
    pub(crate) fn start_everywhere(data_dir: &Path) -> Self {
        Self::launch(&Launch::on(data_dir).listen("0.0.0.0:0"))
    }

    #[track_caller]
    fn launch(launch: &Launch) -> Self {
        let program = launch.start();
        Self {
            line: program.first_line().to_owned(),
            address: program.address(),
            program,
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
        self.program.send(signal);
    }

    /// Sends it a signal and waits for its end. The exit code, if it was not killed, and its logs.
    #[track_caller]
    pub(crate) fn end(self, signal: Signal) -> (Option<i32>, String) {
        self.program.send(signal);
        let Ended { status, log } = self.program.wait();
        (status.code(), log)
    }

    /// As [`Self::end`] with SIGTERM.
    #[track_caller]
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        self.end(Signal::TERM)
    }
}
