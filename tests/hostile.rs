//! Hostile clients: whatever they send, the process stays up, its memory stays bounded, others are
//! served meanwhile, and the log says who sent what.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;
#[path = "hostile/repeats.rs"]
mod repeats;

use bytes::Bytes;
use harness::Client;
use harness::client::{FETCH, PRODUCE, fetch_request, frame, produce_request};
use harness::data_dir::temporary;
use harness::dice::Dice;
use harness::program::{Launch, Program, find_line};
use harness::records::{all_values, batch, compressed};
use odradek_core::record::Compression;
use odradek_core::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use odradek_core::wire::{ApiKey, ErrorCode};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// `socket.request.max.bytes` here.
const MAX_FRAME: usize = 8 << 20;
/// `queued.max.request.bytes` here.
const MAX_QUEUED: usize = 32 << 20;

/// A broker with tight bounds, and an honest client that uses it all the while.
struct Siege {
    program: Program,
    honest: Option<JoinHandle<Vec<Vec<u8>>>>,
    over: Arc<AtomicBool>,
    slowest_ms: Arc<AtomicUsize>,
    idle_kib: u64,
    data: PathBuf,
    _root: tempfile::TempDir,
}

impl Siege {
    fn begin() -> Self {
        let (root, data) = temporary();
        let program = Launch::on(&data)
            .arg("--durability")
            .arg("os")
            .set("socket.request.max.bytes", MAX_FRAME)
            .set("queued.max.request.bytes", MAX_QUEUED)
            .start();
        let address = program.address();
        Client::connect(address).create_topic("honest", 1, &[]);
        let over = Arc::new(AtomicBool::new(false));
        let slowest_ms = Arc::new(AtomicUsize::new(0));
        let honest = {
            let (over, slowest) = (over.clone(), slowest_ms.clone());
            std::thread::spawn(move || be_honest(address, &over, &slowest))
        };
        std::thread::sleep(Duration::from_millis(200));
        Self {
            idle_kib: program.memory_kib("VmRSS"),
            program,
            honest: Some(honest),
            over,
            slowest_ms,
            data,
            _root: root,
        }
    }

    fn address(&self) -> SocketAddr {
        self.program.address()
    }

    /// The honest client was served throughout, none of its round trips taking longer than this;
    /// at no time did the broker hold so much more memory than idle; and it stops cleanly.
    #[track_caller]
    fn end(mut self, longest: Duration, most_mib: u64) {
        assert!(self.program.is_running(), "the process is gone");
        self.over.store(true, Ordering::SeqCst);
        let sent = self.honest.take().unwrap().join().unwrap();
        let slowest = self.slowest_ms.load(Ordering::SeqCst);
        let grown_kib = self.program.memory_kib("VmHWM") - self.idle_kib;
        println!(
            "{} honest round trips, the slowest {slowest} ms; memory {} KiB idle, at most {grown_kib} \
             KiB more",
            sent.len(),
            self.idle_kib
        );
        assert!(
            slowest <= longest.as_millis() as usize,
            "an honest client waited for {slowest} ms"
        );
        assert!(
            grown_kib <= most_mib << 10,
            "memory grew by {grown_kib} KiB"
        );
        let stored = Client::connect(self.address()).fetch_all("honest", 0, 0);
        assert!(all_values(&stored) == sent, "the honest records");
        let ended = self.program.stop();
        assert!(!ended.log.contains("panicked"), "{}", ended.log);
        // What it left behind can be read.
        let program = Launch::on(&self.data).start();
        let stored = Client::connect(program.address()).fetch_all("honest", 0, 0);
        assert!(all_values(&stored) == sent, "the honest records, later");
    }
}

/// Produces a record and fetches it back, over and over; what it produced.
fn be_honest(address: SocketAddr, over: &AtomicBool, slowest_ms: &AtomicUsize) -> Vec<Vec<u8>> {
    let mut client = Client::named(address, "honest");
    let mut sent = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let value = format!("honest {}", sent.len()).into_bytes();
        let begun = Instant::now();
        let offset = sent.len() as i64;
        assert_eq!(client.produce("honest", 0, batch(&[&value])), Ok(offset));
        let found = client.fetch("honest", 0, offset);
        assert_eq!(found.error_code, ErrorCode::NONE);
        assert_eq!(found.high_watermark, offset + 1);
        assert!(!found.records.unwrap().is_empty());
        let took = begun.elapsed().as_millis() as usize;
        slowest_ms.fetch_max(took, Ordering::SeqCst);
        sent.push(value);
        std::thread::sleep(Duration::from_millis(5));
    }
    sent
}

/// Sends these bytes on a connection of their own and waits until the broker closes it, which it
/// must, since this side says that it sends no more. How many bytes it answered.
fn hurl(address: SocketAddr, bytes: &[u8]) -> usize {
    let mut client = Client::named(address, "hurler");
    client.set_timeout(Duration::from_secs(30));
    // It may close before it has read all of it.
    let _ = client.send_bytes(bytes);
    let _ = client.shut_down_sending();
    match client.drain() {
        Ok(answered) => answered,
        Err(error) => panic!("{error}: it did not close after {:02x?}", start_of(bytes)),
    }
}

fn start_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(64)]
}

/// Hurls all of them, several at a time.
fn hurl_all(address: SocketAddr, frames: Vec<Bytes>) -> usize {
    let frames = Arc::new(frames);
    let next = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (frames, next) = (frames.clone(), next.clone());
            std::thread::spawn(move || {
                let mut answered = 0;
                while let Some(frame) = frames.get(next.fetch_add(1, Ordering::SeqCst)) {
                    answered += usize::from(hurl(address, frame) > 0);
                }
                answered
            })
        })
        .collect();
    let answered = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("{} frames, {answered} of them answered", frames.len());
    answered
}

/// A request as Kafka's own classes write it, without its header.
struct Golden {
    api: ApiKey,
    version: i16,
    case: &'static str,
    body: Vec<u8>,
}

fn golden() -> Vec<Golden> {
    let parse = |line: &'static str| {
        let mut columns = line.split('\t');
        let name = columns.next()?.strip_suffix("Request")?;
        let version = columns.next()?.parse().ok()?;
        let case = columns.next()?;
        let hex = columns.nth(1)?;
        let body = (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        let api = *ApiKey::ALL.iter().find(|api| api.name() == name)?;
        Some(Golden {
            api,
            version,
            case,
            body,
        })
    };
    let all: Vec<Golden> = include_str!("../core/tests/golden/kafka-4.3.1.txt")
        .lines()
        .filter_map(parse)
        .collect();
    // Nothing that is advertised is left out.
    for api in ApiKey::ALL {
        for version in api.versions().min..=api.versions().max {
            assert!(all.iter().any(|g| g.api == *api && g.version == version));
        }
    }
    all
}

impl Golden {
    /// A frame without its length.
    fn payload(&self) -> Vec<u8> {
        payload(self.api, self.version, &self.body)
    }
}

fn payload(api: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(api.key().to_be_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.extend(77_i32.to_be_bytes());
    bytes.extend(6_i16.to_be_bytes());
    bytes.extend(b"golden");
    if api.request_header_version(version) >= 2 {
        bytes.push(0);
    }
    bytes.extend(body);
    bytes
}

/// Puts the length in front.
fn framed(payload: &[u8]) -> Bytes {
    let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
    bytes.extend(payload);
    bytes.into()
}

#[test]
fn truncated_frames_of_every_api_and_version() {
    let siege = Siege::begin();
    let mut frames = vec![framed(&[])];
    for golden in golden() {
        let payload = golden.payload();
        if golden.case != "full" {
            continue;
        }
        let step = (payload.len() / 12).max(1);
        for cut in (1..payload.len()).step_by(step) {
            // Truncated, and truncated behind the length of the whole.
            frames.push(framed(&payload[..cut]));
        }
        let whole = framed(&payload);
        frames.push(whole.slice(..whole.len() - 1));
        frames.push(whole.slice(..2));
    }
    // What is advertised only so that an old client goes on to ask is refused.
    for version in ApiKey::Produce.advertised().min..ApiKey::Produce.versions().min {
        frames.push(framed(&payload(ApiKey::Produce, version, &[0; 40])));
        frames.push(framed(&payload(ApiKey::Produce, version, &[])));
    }
    assert!(frames.len() > 1000, "{}", frames.len());
    assert_eq!(hurl_all(siege.address(), frames), 0, "answered");
    siege.end(Duration::from_secs(10), 24);
}

#[test]
fn random_frames() {
    let siege = Siege::begin();
    let mut dice = Dice::new(3);
    let mut frames = Vec::new();
    for _ in 0..1500 {
        let length = dice.below(300);
        let mut bytes = dice.bytes(length);
        if dice.below(4) > 0 && bytes.len() >= 10 {
            // A header that makes sense, before a body that does not.
            let api = *dice.one_of(ApiKey::ALL);
            let versions = api.advertised();
            let version =
                versions.min + dice.below((versions.max - versions.min + 1) as usize) as i16;
            bytes[..2].copy_from_slice(&api.key().to_be_bytes());
            bytes[2..4].copy_from_slice(&version.to_be_bytes());
            bytes[8..10].copy_from_slice(&(-1_i16).to_be_bytes());
        }
        if dice.below(2) == 0 {
            bytes.iter_mut().skip(10).for_each(|byte| *byte %= 4);
        }
        frames.push(framed(&bytes));
        // And bytes that are no frame at all.
        if dice.below(3) == 0 {
            let length = dice.below(200);
            frames.push(dice.bytes(length).into());
        }
    }
    hurl_all(siege.address(), frames);
    siege.end(Duration::from_secs(10), 24);
}

const BOMBS: [&[u8]; 6] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x7f, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0x00, 0x7f, 0xff, 0xff],
    &[0xff, 0xff, 0x7f],
];

#[test]
fn mutated_frames_of_every_api_and_version() {
    let siege = Siege::begin();
    let mut dice = Dice::new(4);
    let mut frames = Vec::new();
    for golden in golden() {
        for _ in 0..4 {
            let mut bytes = golden.payload();
            for _ in 0..dice.within(1..4) {
                // The first four bytes say which API it is.
                let at = dice.within(4..bytes.len().max(5));
                match dice.below(5) {
                    0 => {
                        let place = at.min(bytes.len() - 1);
                        bytes[place] = dice.next() as u8;
                    }
                    1 => bytes.truncate(at),
                    2 => {
                        let length = dice.within(1..20);
                        let more = dice.bytes(length);
                        let place = at.min(bytes.len());
                        bytes.splice(place..place, more);
                    }
                    3 => {
                        let end = (at + dice.within(1..20)).min(bytes.len());
                        bytes.drain(at.min(end)..end);
                    }
                    _ => overwrite(&mut bytes, at, dice.one_of::<&[u8]>(&BOMBS)),
                }
                if bytes.len() < 6 {
                    break;
                }
            }
            frames.push(framed(&bytes));
        }
        // Unharmed, too: nobody said that these make sense.
        frames.push(framed(&golden.payload()));
    }
    assert!(frames.len() > 1000, "{}", frames.len());
    let answered = hurl_all(siege.address(), frames);
    assert!(answered > 100, "some got through: {answered}");
    siege.end(Duration::from_secs(10), 32);
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (byte, value) in bytes.iter_mut().skip(at).zip(with) {
        *byte = *value;
    }
}

#[test]
fn length_bombs_in_every_place_of_every_api() {
    let siege = Siege::begin();
    let mut frames = Vec::new();
    for golden in golden() {
        let versions = golden.api.versions();
        let payload = golden.payload();
        let outermost = golden.version == versions.min || golden.version == versions.max;
        if golden.case != "full" {
            continue;
        }
        for at in 4..payload.len() {
            let bomb = BOMBS[(at + golden.version as usize) % BOMBS.len()];
            // All places in the first and last version, some in those between.
            if outermost || (at + golden.version as usize).is_multiple_of(5) {
                let mut bytes = payload.clone();
                overwrite(&mut bytes, at, bomb);
                frames.push(framed(&bytes));
            }
        }
    }
    assert!(frames.len() > 2000, "{}", frames.len());
    hurl_all(siege.address(), frames);
    siege.end(Duration::from_secs(10), 32);
}

#[test]
fn oversized_frames_are_refused_before_they_are_read() {
    let siege = Siege::begin();
    let address = siege.address();
    let announced = [
        (MAX_FRAME as i32 + 1).to_be_bytes(),
        i32::MAX.to_be_bytes(),
        (-1_i32).to_be_bytes(),
        i32::MIN.to_be_bytes(),
        *b"GET ",
        [0x16, 0x03, 0x01, 0x02],
    ];
    for length in announced {
        let mut client = Client::named(address, "never said");
        let me = client.local_addr().to_string();
        client.send_bytes(&length).unwrap();
        client.set_timeout(Duration::from_secs(20));
        assert_eq!(client.drain().unwrap(), 0, "closed at once, {length:?}");
        let words = format!("a frame of {} bytes", i32::from_be_bytes(length));
        siege.program.await_log(&[&me, &words]);
    }
    // Just within the bound, announced by many and hardly begun: memory follows what arrives.
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut client = Client::named(address, "announcer");
        client
            .send_bytes(&(MAX_FRAME as i32).to_be_bytes())
            .unwrap();
        client.send_bytes(&[0; 100]).unwrap();
        held.push(client);
    }
    std::thread::sleep(Duration::from_millis(500));
    let served = siege.slowest_ms.load(Ordering::SeqCst);
    assert!(served < 10_000, "{served}");
    // A frame of the largest size that there may be is read to its end, and refused for what it is.
    assert_eq!(hurl(address, &framed(&vec![0xee; MAX_FRAME])), 0);
    drop(held);
    siege.end(Duration::from_secs(10), 40);
}

/// More halves than the broker has room for. Those that do not grow are closed after ten seconds,
/// and with that everybody is served again.
#[test]
fn half_sent_frames_hold_others_up_for_seconds_and_not_for_ever() {
    let siege = Siege::begin();
    let mut held = Vec::new();
    for _ in 0..60 {
        let mut client = Client::named(siege.address(), "half");
        client.set_timeout(Duration::from_millis(200));
        client
            .send_bytes(&(MAX_FRAME as i32).to_be_bytes())
            .unwrap();
        let half = payload(ApiKey::Produce, 9, &vec![0; 2 << 20]);
        // The broker stops reading at some point.
        let _ = client.send_bytes(&half);
        held.push(client);
    }
    let line = siege
        .program
        .await_log(&["bytes of a frame and nothing more", "while others wait"]);
    let addresses: Vec<String> = held
        .iter()
        .map(|client| client.local_addr().to_string())
        .collect();
    let whose = addresses.iter().any(|address| line.contains(address));
    assert!(whose, "it says whose: {line}");
    // Once the halves are gone an honest request is quick.
    drop(held);
    let mut client = Client::named(siege.address(), "afterwards");
    assert_eq!(client.metadata(&["honest"]).topics.len(), 1);
    siege.end(Duration::from_secs(40), 120);
}

#[test]
fn a_flood_below_the_bound_holds_nobody_up() {
    let siege = Siege::begin();
    let mut held = Vec::new();
    for _ in 0..15 {
        let mut client = Client::named(siege.address(), "half");
        client
            .send_bytes(&(MAX_FRAME as i32).to_be_bytes())
            .unwrap();
        client.send_bytes(&vec![0; 1 << 20]).unwrap();
        held.push(client);
    }
    std::thread::sleep(Duration::from_secs(1));
    drop(held);
    siege.end(Duration::from_secs(10), 60);
}

#[test]
fn clients_that_never_read_their_answers() {
    let siege = Siege::begin();
    let address = siege.address();
    let mut client = Client::connect(address);
    client.create_topic("large", 1, &[]);
    let value = vec![3; 900 << 10];
    for _ in 0..10 {
        client.produce("large", 0, batch(&[&value])).unwrap();
    }
    // A quarter of a megabyte of answer for a kilobyte.
    let described: Vec<String> = (0..60).map(|n| format!("described-{n}")).collect();
    for name in &described {
        client.create_topic(name, 1, &[]);
    }
    let of_topic = |name: &String| DescribeConfigsResource {
        resource_type: 2,
        resource_name: name.as_str().into(),
        configuration_keys: None,
        ..Default::default()
    };
    let describe = DescribeConfigsRequest {
        resources: described.iter().map(of_topic).collect(),
        include_synonyms: true,
        include_documentation: true,
        ..Default::default()
    };
    let mut held = Vec::new();
    for n in 0..16 {
        let mut client = Client::named(address, "slow reader");
        client.set_timeout(Duration::from_millis(200));
        let mut sent: io::Result<()> = Ok(());
        for _ in 0..128 {
            // Ranges of files for some, answers out of memory for the others.
            sent = sent.and_then(|()| {
                if n % 2 == 0 {
                    client.send(FETCH, &fetch_request("large", 0, 0, 0))
                } else {
                    client.send(4, &describe)
                }
            });
        }
        held.push(client);
    }
    std::thread::sleep(Duration::from_secs(2));
    // Two of them come to their senses: they get their answers, all of them, in order.
    for client in &mut held[..2] {
        client.set_timeout(Duration::from_secs(60));
        while client.outstanding() > 0 {
            client.receive().unwrap();
        }
    }
    drop(held);
    // 42 were seen: the allocator keeps for a moment what a thread freed.
    siege.end(Duration::from_secs(20), 56);
}

/// A few bytes that unpack to more than a hundred megabytes.
#[test]
fn compressed_bombs() {
    let siege = Siege::begin();
    let zeros = vec![0; 120 << 20];
    let mut client = Client::named(siege.address(), "bomber");
    client.create_topic("bombs", 1, &[]);
    for compression in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let bomb = compressed(compression, &zeros);
        assert!(bomb.len() < MAX_FRAME, "{}", bomb.len());
        let refused = client.produce("bombs", 0, bomb).unwrap_err();
        assert!(
            [
                ErrorCode::MESSAGE_TOO_LARGE,
                ErrorCode::CORRUPT_MESSAGE,
                ErrorCode::INVALID_RECORD
            ]
            .contains(&refused),
            "{compression:?}: {refused:?}"
        );
    }
    // Garbage that says it is compressed.
    let mut dice = Dice::new(9);
    for n in 0..200_u8 {
        let mut bytes = compressed(Compression::None, &dice.bytes(200)).to_vec();
        bytes[22] = n % 8;
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let outcome = client.produce("bombs", 0, bytes.into());
        assert_eq!(outcome.is_ok(), n % 8 == 0, "attributes {}", n % 8);
    }
    drop(client);
    drop(zeros);
    siege.end(Duration::from_secs(10), 64);
}

/// Whoever was refused is in the log: address, the name it gave itself, what it sent and why that
/// was refused; in one line, whatever the name holds.
#[test]
fn the_log_says_who_sent_what() {
    let siege = Siege::begin();
    let address = siege.address();
    let log = |client: &Client, parts: &[&str]| {
        let me = client.local_addr().to_string();
        let found = siege.program.await_log(&[&[me.as_str()], parts].concat());
        assert!(found.contains("odradek::connection"), "{found}");
        found
    };
    let body = |n: u8| payload(ApiKey::Fetch, 12, &[n; 9]);

    let mut client = Client::connect(address);
    client.send_bytes(&framed(&body(0xff))).unwrap();
    client.drain().unwrap();
    let line = log(&client, &["golden", "closing"]);
    let connection = line
        .split("connection=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("no connection in {line}"));
    let why = format!("connection={connection} ");
    siege.program.await_log(&[&why, "Fetch v12 #77", "golden"]);

    // No such API; an API that is, in a version that is not.
    for (key, version, what) in [(999_i16, 0_i16, "no such API"), (1, 99, "only versions")] {
        let mut bytes = body(0);
        bytes[..2].copy_from_slice(&key.to_be_bytes());
        bytes[2..4].copy_from_slice(&version.to_be_bytes());
        let mut client = Client::connect(address);
        client.send_bytes(&framed(&bytes)).unwrap();
        assert_eq!(client.drain().unwrap(), 0);
        log(&client, &["golden", "closing"]);
        siege.program.await_log(&["refused", what]);
    }

    // A produce without an answer to put its error in.
    let mut client = Client::named(address, "acks-0");
    let request = produce_request("no-such-topic", 0, &[(0, batch(&[b"x"]))]);
    client.send_unanswered(PRODUCE, &request).unwrap();
    assert_eq!(client.drain().unwrap(), 0);
    log(&client, &["acks-0", "closing"]);

    // A name that wants to be another line of the log.
    let mut client = Client::named(address, "x\n2026-01-01 ERROR forged\x1b[31m");
    let mut bytes = frame(
        12,
        5,
        "x\n2026-01-01 ERROR forged\x1b[31m",
        &fetch_request("t", 0, 0, 0),
    );
    let end = bytes.len();
    bytes.truncate(end - 1);
    client.send_bytes(&framed(&bytes[4..])).unwrap();
    assert_eq!(client.drain().unwrap(), 0);
    log(&client, &["forged", "closing"]);
    // A name of 32 KB does not fill the disk.
    let long = "n".repeat(32_000);
    let mut bytes = frame(12, 5, &long, &fetch_request("t", 0, 0, 0));
    let end = bytes.len();
    bytes.truncate(end - 1);
    let mut client = Client::connect(address);
    client.send_bytes(&framed(&bytes[4..])).unwrap();
    assert_eq!(client.drain().unwrap(), 0);
    log(&client, &["closing"]);

    let text = siege.program.log();
    assert!(find_line(&text, &["forged"]).is_some());
    for line in text.lines() {
        assert!(!line.starts_with("2026-01-01 ERROR forged"), "{line}");
        assert!(!line.contains('\x1b'), "{line:?}");
        assert!(line.len() < 1000, "{} bytes in a line", line.len());
    }
    siege.end(Duration::from_secs(10), 24);
}
