//! Apache Kafka as one KRaft node, from a directory with its jars (`results/fetch-kafka`).

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::process::Process;
use crate::failure::Failure;

/// The options of Kafka's own start script, and its heap.
const JVM: [&str; 7] = [
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-Djava.awt.headless=true",
];

/// Formats a directory and starts Kafka on it.
pub(super) fn start(jars: &Path, directory: &Path) -> Result<Process, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot start Kafka: {error}"));
    let address = free_address().map_err(failed)?;
    let controller = free_address().map_err(failed)?;
    std::fs::create_dir_all(directory).map_err(failed)?;
    let properties = directory.join("server.properties");
    let text = format!(
        "process.roles=broker,controller\n\
         node.id=0\n\
         controller.quorum.voters=0@{controller}\n\
         listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{address}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={}\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         log.retention.check.interval.ms=1000\n",
        directory.join("data").display()
    );
    std::fs::write(&properties, text).map_err(failed)?;
    let format = [
        "kafka.tools.StorageTool",
        "format",
        "-t",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        "-c",
    ];
    let formatted = java(jars, &format, &properties).output().map_err(failed)?;
    if !formatted.status.success() {
        return Err(Failure::failed(format!(
            "Kafka cannot format its directory: {}; are its jars in {}?",
            String::from_utf8_lossy(&formatted.stderr).trim(),
            jars.display()
        )));
    }
    let begun = Instant::now();
    let child = java(jars, &["kafka.Kafka"], &properties)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Process::answering(child, address, false, begun)
}

fn java(jars: &Path, main: &[&str], properties: &Path) -> Command {
    let mut command = Command::new("java");
    command
        .args(JVM)
        .arg("-cp")
        .arg(format!("{}/*", jars.display()))
        .args(main)
        .arg(properties)
        .stdin(Stdio::null());
    command
}

/// A port that was free a moment ago.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
