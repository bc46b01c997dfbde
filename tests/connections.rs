//! Many connections that do nothing: quickly opened, small, and in nobody's way.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::Client;
use harness::data_dir::temporary;
use harness::program::Launch;
use harness::records::batch;
use odradek_core::wire::messages::ApiVersionsRequest;
use odradek_io::limits::raise_descriptor_limit;

const CONNECTIONS: usize = 2000;

#[test]
fn two_thousand_idle_connections_are_cheap() {
    let descriptors = raise_descriptor_limit();
    assert!(
        descriptors > 3 * CONNECTIONS as u64,
        "the limit of open files is {descriptors}; raise it (ulimit -Hn)"
    );
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let address = program.address();
    let mut busy = Client::connect(address);
    busy.create_topic("busy", 1, &[]);
    busy.produce("busy", 0, batch(&[b"0"])).unwrap();

    // Clients that say nothing at all.
    let before = program.memory_kib("VmRSS");
    let begun = Instant::now();
    let silent: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let connected = begun.elapsed();
    // The last of them being served, all are.
    let mut last = Client::connect(address);
    last.ask(0, &ApiVersionsRequest::default()).unwrap();
    let accepted = begun.elapsed();
    let silent_kib = program.memory_kib("VmRSS") - before;
    drop(silent);

    // Clients that introduced themselves, as every real one does, and went quiet.
    let before = program.memory_kib("VmRSS");
    let mut polite: Vec<Client> = (0..CONNECTIONS)
        .map(|_| Client::named(address, "polite"))
        .collect();
    for client in &mut polite {
        client.ask(0, &ApiVersionsRequest::default()).unwrap();
        client.metadata(&["busy"]);
    }
    let polite_kib = program.memory_kib("VmRSS").saturating_sub(before);
    let idle_bytes = |kib: u64| (kib << 10) / CONNECTIONS as u64;
    println!(
        "{CONNECTIONS} connections: connected in {connected:?}, served in {accepted:?}; bytes of \
         the broker's memory for each: {} silent, {} more that have asked",
        idle_bytes(silent_kib),
        idle_bytes(polite_kib)
    );
    assert!(accepted < Duration::from_secs(10), "{accepted:?}");
    // The kernel's share is not in this figure.
    assert!(idle_bytes(silent_kib) < 16 << 10, "{silent_kib} KiB");
    assert!(idle_bytes(polite_kib) < 16 << 10, "{polite_kib} KiB");

    // Among all of them work goes on, and each of them is still there.
    let begun = Instant::now();
    for n in 1..100 {
        assert_eq!(busy.produce("busy", 0, batch(&[b"n"])), Ok(n));
    }
    println!("100 round trips among them: {:?}", begun.elapsed());
    for client in &mut polite {
        client.ask(0, &ApiVersionsRequest::default()).unwrap();
    }
    drop(polite);
    program.stop();
}
