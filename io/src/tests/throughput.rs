//! What the edge costs: with a toy for a guest, with the broker, and a bare loop beside them. Run
//! with `cargo test --release -p odradek-io throughput -- --ignored --nocapture --test-threads 1`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::broker::{Client, PRODUCE_VERSION, frame, produce_request};
use super::toy::{Toy, request};
use crate::test_broker::{InProcess, Setup, TestBroker, TestOptions};

const TIME: Duration = Duration::from_secs(3);

/// What is sent to whom.
enum Load {
    Bare,
    Toy { flush: bool },
    Broker(TestOptions),
}

/// Batches of `records` records of `bytes`.
fn load(load: &Load, connections: usize, in_flight: usize, records: usize, bytes: usize) {
    let value = vec![7; bytes];
    let values: Vec<&[u8]> = (0..records).map(|_| &value[..]).collect();
    let produce = frame(PRODUCE_VERSION, &produce_request(&values));
    let measure = |address, frame: &[u8]| {
        let begun = Instant::now();
        let count = if connections == 1 {
            one(address, frame, in_flight)
        } else {
            many(address, frame, connections)
        };
        count as f64 / begun.elapsed().as_secs_f64()
    };
    let (name, rate) = match load {
        Load::Bare => ("bare", measure(bare(produce.len()), &produce)),
        Load::Toy { flush } => {
            let broker = InProcess::launch(Setup::default(), Toy::default, None).unwrap();
            let letter = if *flush { b'A' } else { b'O' };
            let frame = request(1, letter, &produce[9..]);
            ("toy", measure(broker.address(), &frame))
        }
        Load::Broker(options) => {
            let broker = TestBroker::start(options.clone()).unwrap();
            Client::connect(broker.address()).create_topic();
            ("broker", measure(broker.address(), &produce))
        }
    };
    #[expect(clippy::disallowed_macros, reason = "the figures are the point")]
    {
        println!(
            "{name:>7}, {connections} connections, {in_flight} in flight, {records} x {bytes} B: \
             {rate:.0} requests/s, {:.0} MB/s",
            rate * produce.len() as f64 / 1e6
        );
    }
}

/// Reads one answer, to know how long they are.
fn answer_length(stream: &mut TcpStream) -> usize {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let length = u32::from_be_bytes(length) as usize;
    stream.read_exact(&mut vec![0; length]).unwrap();
    4 + length
}

fn one(address: SocketAddr, frame: &[u8], in_flight: usize) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(frame).unwrap();
    let length = answer_length(&mut stream);
    for _ in 0..in_flight {
        stream.write_all(frame).unwrap();
    }
    let end = Instant::now() + TIME;
    let mut count = 0;
    let mut buffer = vec![0; 64 * length];
    let mut got = 0;
    while Instant::now() < end {
        got += stream.read(&mut buffer).unwrap();
        while got >= length {
            stream.write_all(frame).unwrap();
            got -= length;
            count += 1;
        }
    }
    count
}

/// One request in flight on each, driven by one thread.
fn many(address: SocketAddr, frame: &[u8], connections: usize) -> usize {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let end = Instant::now() + TIME;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let frame = frame.to_vec();
            tasks.push(tokio::spawn(async move {
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut count = 0;
                let mut answer = [0; 256];
                while Instant::now() < end {
                    stream.write_all(&frame).await.unwrap();
                    stream.read_exact(&mut answer[..4]).await.unwrap();
                    let length = u32::from_be_bytes(answer[..4].try_into().unwrap()) as usize;
                    stream.read_exact(&mut answer[..length]).await.unwrap();
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

/// A loop with no broker in it: receive, checksum, write, answer; one connection.
fn bare(length: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join("log")).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut buffer = vec![0; length];
        let mut position = 0;
        while stream.read_exact(&mut buffer).is_ok() {
            file.write_all_at(&buffer, position).unwrap();
            position += length as u64;
            if stream
                .write_all(&[0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                .is_err()
            {
                break;
            }
        }
    });
    address
}

/// One row again and again, to be looked at with a profiler.
#[test]
#[ignore = "a measurement"]
fn profile_small() {
    for _ in 0..4 {
        load(&Load::Broker(TestOptions::os()), 1, 5, 10, 100);
    }
}

/// As [`profile_small`].
#[test]
#[ignore = "a measurement"]
fn profile_many() {
    for _ in 0..4 {
        load(&Load::Broker(TestOptions::fsync()), 500, 1, 1, 100);
    }
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    for _ in 0..3 {
        for (records, bytes) in [(1000, 100), (1000, 1024), (10, 100)] {
            load(&Load::Bare, 1, 5, records, bytes);
            load(&Load::Toy { flush: false }, 1, 5, records, bytes);
            load(&Load::Broker(TestOptions::os()), 1, 5, records, bytes);
            load(&Load::Broker(TestOptions::fsync()), 1, 5, records, bytes);
        }
        load(&Load::Toy { flush: true }, 500, 1, 1, 100);
        load(&Load::Broker(TestOptions::os()), 500, 1, 1, 100);
        load(&Load::Broker(TestOptions::fsync()), 500, 1, 1, 100);
    }
}

/// Opens 5,000 connections (their other ends are in the same process) and says how long that takes and what each holds while nothing comes:
/// after it was opened, and after it has asked once.
#[test]
#[ignore = "a measurement"]
fn idle_connections() {
    const COUNT: usize = 5_000;
    crate::limits::raise_descriptor_limit();
    let broker = TestBroker::start(TestOptions::os()).unwrap();
    Client::connect(broker.address()).create_topic();
    let before = resident_bytes();
    let begun = Instant::now();
    let mut clients: Vec<TcpStream> = (0..COUNT)
        .map(|_| TcpStream::connect(broker.address()).unwrap())
        .collect();
    let connected = begun.elapsed();
    let frame = frame(PRODUCE_VERSION, &produce_request(&[b"x"]));
    // Answered: so the broker has accepted all of them.
    clients.last_mut().unwrap().write_all(&frame).unwrap();
    answer_length(clients.last_mut().unwrap());
    let opened = begun.elapsed();
    let idle = resident_bytes() - before;
    for client in &mut clients {
        client.write_all(&frame).unwrap();
        answer_length(client);
    }
    let asked = resident_bytes() - before;
    #[expect(clippy::disallowed_macros, reason = "the figures are the point")]
    {
        println!(
            "{COUNT} connections: connected in {connected:?}, accepted in {opened:?}, \
             {} B each, {} B each after a request",
            idle / COUNT,
            asked / COUNT
        );
    }
    assert!(asked / COUNT < 10 << 10);
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
