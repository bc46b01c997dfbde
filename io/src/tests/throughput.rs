//! What the edge itself costs, with the toy for a guest. Run with
//! `cargo test --release -p odradek-io throughput -- --ignored --nocapture --test-threads 1`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::toy::{Toy, request};
use crate::test_broker::{InProcess, Setup};

/// Connections, each with `in_flight` requests of `bytes` for a while. Prints requests and bytes
/// a second.
fn load(name: &str, letter: u8, connections: usize, in_flight: usize, bytes: usize) {
    let broker = InProcess::launch(Setup::default(), Toy::default, None).unwrap();
    let address = broker.address();
    let seconds = Duration::from_secs(3);
    let frame = request(1, letter, &vec![7; bytes]);
    let begun = Instant::now();
    let count = if connections == 1 {
        one(address, &frame, in_flight, seconds)
    } else {
        many(address, &frame, connections, seconds)
    };
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    #[expect(clippy::disallowed_macros, reason = "the figures are the point")]
    {
        println!(
            "{name}: {rate:.0} requests/s, {:.0} MB/s",
            rate * bytes as f64 / 1e6
        );
    }
}

fn one(address: SocketAddr, frame: &[u8], in_flight: usize, time: Duration) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for _ in 0..in_flight {
        stream.write_all(frame).unwrap();
    }
    let end = Instant::now() + time;
    let mut count = 0;
    let mut buffer = vec![0; 16 * 64];
    while Instant::now() < end {
        let n = stream.read(&mut buffer).unwrap();
        // Each answer has 16 bytes; on loopback they are not torn.
        let answers = n / 16;
        for _ in 0..answers {
            stream.write_all(frame).unwrap();
        }
        count += answers;
    }
    count
}

/// One request in flight on each, driven by one thread.
fn many(address: SocketAddr, frame: &[u8], connections: usize, time: Duration) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let end = Instant::now() + time;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let frame = frame.to_vec();
            tasks.push(tokio::spawn(async move {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut count = 0;
                let mut answer = [0; 64];
                while Instant::now() < end {
                    stream.write_all(&frame).await.unwrap();
                    let mut got = 0;
                    while got < 16 {
                        got += stream.read(&mut answer).await.unwrap();
                    }
                    count += 1;
                }
                count
            }));
        }
        let mut total = 0;
        for task in tasks {
            total += task.await.unwrap();
        }
        total
    })
}

/// The same work in a loop with no broker in it: receive, write, answer.
fn bare(name: &str, in_flight: usize, bytes: usize) {
    use std::os::unix::fs::FileExt;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join("log")).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut buffer = vec![0; bytes + 9];
        let mut position = 0;
        while stream.read_exact(&mut buffer).is_ok() {
            file.write_all_at(&buffer[9..], position).unwrap();
            position += bytes as u64;
            if stream.write_all(&[0; 16]).is_err() {
                break;
            }
        }
    });
    let frame = request(1, b'O', &vec![7; bytes]);
    let begun = Instant::now();
    let count = one(address, &frame, in_flight, Duration::from_secs(3));
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    #[expect(clippy::disallowed_macros, reason = "the figures are the point")]
    {
        println!(
            "{name}: {rate:.0} requests/s, {:.0} MB/s (bare)",
            rate * bytes as f64 / 1e6
        );
    }
    server.join().unwrap();
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    for _ in 0..3 {
        for (name, bytes) in [("100 KB", 100_000), ("1 MB", 1_000_000), ("1 KB", 1_200)] {
            let name = format!("{name}, 5 in flight, page cache");
            bare(&name, 5, bytes);
            load(&name, b'O', 1, 5, bytes);
        }
    }
    load("100 KB, 5 in flight, flushed", b'A', 1, 5, 100_000);
    load("1 MB, 5 in flight, flushed", b'A', 1, 5, 1_000_000);
    load("170 B, 500 connections, page cache", b'O', 500, 1, 170);
    load("170 B, 500 connections, flushed", b'A', 500, 1, 170);
}
