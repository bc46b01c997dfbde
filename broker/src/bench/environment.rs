//! Under which conditions a figure was found.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::files::read_small;

/// Machine and moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Environment {
    /// Seconds since 1970.
    pub(super) time: u64,
    /// Processor, cores, memory.
    pub(super) machine: String,
    /// Kernel.
    pub(super) kernel: String,
    /// Of this program's sources, as far as the current directory knows; with a `+` if they have
    /// been changed since.
    pub(super) commit: String,
    /// The load average over a minute, when the measurement began.
    pub(super) load_average: f64,
    /// How this program was called.
    pub(super) command: String,
}

impl Environment {
    /// Here and now.
    pub(super) fn now() -> Self {
        let passed = SystemTime::now().duration_since(UNIX_EPOCH);
        let uname = rustix::system::uname();
        Self {
            time: passed.map_or(0, |passed| passed.as_secs()),
            machine: machine(),
            kernel: format!(
                "{} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy()
            ),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            load_average: text("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or_default(),
            command: command(),
        }
    }
}

fn machine() -> String {
    let cpus = text("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = cpus
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let memory = text("/proc/meminfo");
    let kib: u64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_default();
    format!(
        "{model}, {}, {} GiB",
        crate::output::counted(cores as u64, "core", "cores"),
        (kib + (1 << 19)) >> 20
    )
}

/// Only the program's name: where it lies on this machine is nobody's business.
fn command() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    std::iter::once(name.to_string_lossy().into_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":!results",
    ])?;
    Some(if changed.is_empty() {
        commit
    } else {
        format!("{commit}+")
    })
}

fn text(path: &str) -> String {
    let bytes = read_small(Path::new(path), 1 << 20).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
