//! Brokers that the bench starts itself, and what `/proc` says of them.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::frames::RequestFrame;
use super::link::Link;
use super::load::Target;
use super::schedule::wait_until;
use crate::failure::Failure;
use crate::files::read_small;

/// No stop takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker in a process of its own. Killed when it is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    bare: bool,
    pub(super) topic_configs: Vec<(&'static str, String)>,
    /// From the start of the process to its first answer.
    pub(super) started_in: Duration,
}

impl Process {
    /// This program's `serve`.
    pub(super) fn odradek(
        data_dir: &Path,
        durability: &str,
        settings: &[&str],
    ) -> Result<Self, Failure> {
        let mut command = this_program()?;
        command
            .arg("serve")
            .args([OsStr::new("--data-dir"), data_dir.as_os_str()])
            .args(["--listen", "127.0.0.1:0", "--log", "warn"])
            .args(["--durability", durability])
            .args(settings.iter().flat_map(|setting| ["--set", setting]));
        Self::announced(command, false)
    }

    /// A bare loop of this program.
    pub(super) fn bare(directory: &Path, flush: bool) -> Result<Self, Failure> {
        std::fs::create_dir_all(directory)
            .map_err(|error| Failure::failed(format!("cannot make a directory: {error}")))?;
        let mut command = this_program()?;
        command
            .args(["bench", "bare"])
            .args([OsStr::new("--dir"), directory.as_os_str()]);
        if flush {
            command.arg("--flush");
        }
        Self::announced(command, true)
    }

    /// Starts a program that prints a line with its address.
    fn announced(mut command: Command, bare: bool) -> Result<Self, Failure> {
        let begun = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot start a broker: {error}")))?;
        let mut line = String::new();
        if let Some(stdout) = &mut child.stdout {
            // A child that ends says nothing.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let address = line
            .split_once("listening on ")
            .and_then(|(_, rest)| rest.split(',').next()?.trim().parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::failed("a broker did not start; see above"));
        };
        Self::answering(child, address, bare, begun)
    }

    /// A process that listens, or soon does; waits for its first answer.
    pub(super) fn answering(
        child: Child,
        address: SocketAddr,
        bare: bool,
        begun: Instant,
    ) -> Result<Self, Failure> {
        let mut process = Self {
            child,
            address,
            bare,
            topic_configs: Vec::new(),
            started_in: Duration::ZERO,
        };
        let answers = |address| {
            let mut link = Link::connect(address)?;
            link.send(RequestFrame::ping(40).numbered(1))?;
            link.receive().map(|_| ())
        };
        while let Err(failure) = answers(address) {
            if process.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(Failure::failed("a broker ended before it answered"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(failure);
            }
            wait_until(Instant::now() + Duration::from_millis(20));
        }
        process.started_in = begun.elapsed();
        Ok(process)
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What a load is run against.
    pub(super) fn target(&self) -> Target {
        Target {
            address: self.address,
            pid: Some(self.pid()),
            bare: self.bare,
            topic_configs: self.topic_configs.clone(),
        }
    }

    /// Asks it to stop and waits until it has.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Ok(());
            }
            wait_until(Instant::now() + Duration::from_millis(2));
        }
        Err(Failure::failed(
            "a broker did not stop when it was asked to",
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn this_program() -> Result<Command, Failure> {
    std::env::current_exe()
        .map(Command::new)
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))
}

/// CPU time of a process so far, in seconds, over all its threads.
pub(super) fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = proc_file(pid, "stat")?;
    // The name may hold anything, so count from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks = rustix::param::clock_ticks_per_second();
    Some((user + system) as f64 / ticks as f64)
}

/// Memory of a process that is in RAM, in bytes.
pub(super) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = proc_file(pid, "status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

fn proc_file(pid: u32, name: &str) -> Option<String> {
    let bytes = read_small(Path::new(&format!("/proc/{pid}/{name}")), 64 << 10).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_cpu() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 100_000);
        let before = cpu_seconds(pid).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {}
        assert!(cpu_seconds(pid).unwrap() > before);
        assert_eq!(cpu_seconds(u32::MAX), None);
    }
}
