//! The toy behind real sockets and files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use odradek_core::time::Mono;

use super::toy::{Toy, request};
use crate::limits::Limits;
use crate::recorder::Transcript;
use crate::server::ServerError;
use crate::test_broker::{InProcess, Setup};

type ToyBroker = InProcess<Toy>;

fn start() -> ToyBroker {
    start_with(|_| {})
}

fn start_with(change: impl FnOnce(&mut Limits)) -> ToyBroker {
    let mut setup = Setup::default();
    change(&mut setup.limits);
    InProcess::launch(setup, Toy::default, None).unwrap()
}

struct Client(TcpStream);

impl Client {
    fn connect(broker: &ToyBroker) -> Self {
        let stream = TcpStream::connect(broker.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, number: u32, letter: u8, payload: &[u8]) {
        self.0.write_all(&request(number, letter, payload)).unwrap();
    }

    fn receive(&mut self) -> (u32, Vec<u8>) {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame).unwrap();
        let number = u32::from_be_bytes(frame[..4].try_into().unwrap());
        (number, frame.split_off(4))
    }

    fn ask(&mut self, letter: u8, payload: &[u8]) -> Vec<u8> {
        self.send(7, letter, payload);
        let (number, answer) = self.receive();
        assert_eq!(number, 7);
        answer
    }

    fn append(&mut self, payload: &[u8]) -> u64 {
        u64::from_be_bytes(self.ask(b'A', payload).try_into().unwrap())
    }

    fn fetch(&mut self, position: u64, length: u32) -> Vec<u8> {
        let mut payload = position.to_be_bytes().to_vec();
        payload.extend(length.to_be_bytes());
        self.ask(b'F', &payload)
    }

    /// Whether the other side has closed the connection.
    fn is_closed(&mut self) -> bool {
        !matches!(self.0.read(&mut [0; 16]), Ok(1..))
    }
}

fn payload(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

#[test]
fn what_was_appended_is_fetched_back_small_and_large() {
    let broker = start();
    let mut client = Client::connect(&broker);
    for (n, length) in [61, 100, 32 << 10, 100_000, 3 << 20, 70]
        .into_iter()
        .enumerate()
    {
        let sent = payload(length, n as u8);
        let position = client.append(&sent);
        let got = client.fetch(position, length as u32);
        assert!(got == sent, "{length} bytes come back the same");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let broker = start();
    let mut client = Client::connect(&broker);
    let mut stream = Vec::new();
    for number in 0..500 {
        stream.extend(request(
            number,
            b'A',
            &payload(61 + number as usize % 50, 1),
        ));
    }
    client.0.write_all(&stream).unwrap();
    for number in 0..500 {
        assert_eq!(client.receive().0, number);
    }
}

#[test]
fn a_request_without_a_response_gives_its_place_back() {
    let broker = start_with(|limits| limits.max_in_flight = 2);
    let mut client = Client::connect(&broker);
    for number in 0..50 {
        client.send(number, b'S', b"");
    }
    assert_eq!(client.ask(b'E', b"still here"), b"still here");
}

#[test]
fn requests_beyond_the_limit_of_a_connection_stay_in_its_socket() {
    let transcript = Transcript::default();
    let recorder = transcript.clone();
    let mut setup = Setup::default();
    setup.limits.max_in_flight = 3;
    let broker: ToyBroker = InProcess::launch(
        setup,
        Toy::default,
        Some(Box::new(move || Box::new(recorder.clone()))),
    )
    .unwrap();
    let mut stuck = Client::connect(&broker);
    for number in 0..10 {
        stuck.send(number, b'P', b"");
    }
    let mut other = Client::connect(&broker);
    assert_eq!(other.ask(b'E', b"x"), b"x");
    std::thread::sleep(Duration::from_millis(50));
    let count = |name: &str| {
        let steps = transcript.steps();
        steps
            .iter()
            .filter(|step| step.input.starts_with(name))
            .count()
    };
    assert_eq!(count("request c1"), 3);
}

#[test]
fn queued_bytes_of_all_connections_are_bounded_and_one_frame_always_gets_through() {
    let broker = start_with(|limits| limits.max_queued_request_bytes = 100_000);
    // Requests that are never answered fill the budget.
    let mut fillers: Vec<_> = (0..4).map(|_| Client::connect(&broker)).collect();
    for filler in &mut fillers {
        filler.send(1, b'P', &payload(30_000, 0));
    }
    std::thread::sleep(Duration::from_millis(100));
    let mut late = Client::connect(&broker);
    late.0
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    late.send(2, b'E', b"hello");
    assert!(late.0.read(&mut [0; 1]).is_err(), "its socket is not read");
    // A client that goes away takes its bytes with it.
    fillers.pop();
    fillers.pop();
    late.0
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    assert_eq!(late.receive(), (2, b"hello".to_vec()));
}

#[test]
fn frames_larger_than_the_budget_pass_one_after_the_other() {
    let broker = start_with(|limits| limits.max_queued_request_bytes = 50_000);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let mut client = Client::connect(&broker);
            std::thread::spawn(move || {
                let sent = payload(2 << 20, n);
                for _ in 0..5 {
                    assert!(client.ask(b'E', &sent) == sent);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_client_that_does_not_read_its_answers_does_not_hold_up_others() {
    let broker = start();
    let mut writer = Client::connect(&broker);
    let large = payload(4 << 20, 3);
    let position = writer.append(&large);
    let mut lazy = Client::connect(&broker);
    let mut ask = position.to_be_bytes().to_vec();
    ask.extend((4u32 << 20).to_be_bytes());
    for number in 0..20 {
        lazy.send(number, b'F', &ask);
    }
    for _ in 0..20 {
        assert_eq!(writer.ask(b'E', b"x"), b"x");
    }
    // And it still gets everything when it does read.
    for number in 0..20 {
        let (got, bytes) = lazy.receive();
        assert_eq!(got, number);
        assert!(bytes == large);
    }
}

#[test]
fn a_range_beyond_the_end_of_its_file_closes_the_connection() {
    let broker = start();
    let mut client = Client::connect(&broker);
    client.append(&payload(100, 0));
    let mut ask = 50u64.to_be_bytes().to_vec();
    ask.extend(200_000u32.to_be_bytes());
    client.send(1, b'F', &ask);
    let mut rest = Vec::new();
    let _ = client.0.read_to_end(&mut rest);
    assert!(rest.len() < 200_000);
    let mut other = Client::connect(&broker);
    assert_eq!(other.ask(b'E', b"x"), b"x");
}

#[test]
fn a_closed_connection_gets_its_last_answer_first() {
    let broker = start();
    let mut client = Client::connect(&broker);
    assert!(client.ask(b'X', b"").is_empty());
    assert!(client.is_closed());
}

#[test]
fn lengths_that_make_no_sense_close_the_connection_and_nothing_else() {
    let broker = start();
    for length in [u32::MAX, i32::MAX as u32, (100 << 20) + 1, 0x4745_5420] {
        let mut client = Client::connect(&broker);
        client.0.write_all(&length.to_be_bytes()).unwrap();
        assert!(client.is_closed());
    }
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask(b'E', b"x"), b"x");
}

#[test]
fn idle_connections_are_closed_and_those_that_wait_for_the_broker_are_not() {
    let broker = start_with(|limits| limits.max_idle = Duration::from_millis(300));
    let begun = Instant::now();
    let mut idle = Client::connect(&broker);
    let mut half = Client::connect(&broker);
    half.0.write_all(&request(1, b'E', b"hello")[..7]).unwrap();
    let mut waiting = Client::connect(&broker);
    waiting.send(1, b'T', &1_500u32.to_be_bytes());
    assert!(idle.is_closed());
    assert!(half.is_closed());
    let after = begun.elapsed();
    assert!(after >= Duration::from_millis(290), "{after:?}");
    assert!(after < Duration::from_millis(1_400), "{after:?}");
    assert_eq!(waiting.receive().0, 1);
}

#[test]
fn one_connection_too_many_is_closed_at_once_and_one_less_makes_room() {
    let broker = start_with(|limits| limits.max_connections = 2);
    let mut first = Client::connect(&broker);
    let mut second = Client::connect(&broker);
    assert_eq!(first.ask(b'E', b"1"), b"1");
    assert_eq!(second.ask(b'E', b"2"), b"2");
    assert!(Client::connect(&broker).is_closed());
    drop(first);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut third = Client::connect(&broker);
        let _ = third.0.write_all(&request(7, b'E', b"3"));
        if !third.is_closed() {
            break;
        }
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn deadlines_come_in_their_order_and_not_before_their_time() {
    let broker = start();
    let mut client = Client::connect(&broker);
    let begun = Instant::now();
    for ms in [150u32, 50, 100] {
        client.send(ms, b'T', &ms.to_be_bytes());
    }
    for ms in [50, 100, 150] {
        assert_eq!(client.receive().0, ms);
        let after = begun.elapsed();
        assert!(after >= Duration::from_millis(u64::from(ms)), "{after:?}");
        assert!(
            after < Duration::from_millis(u64::from(ms) + 1000),
            "{after:?}"
        );
    }
}

#[test]
fn a_killed_broker_has_what_it_wrote_and_its_port_again() {
    let mut broker = start();
    let mut client = Client::connect(&broker);
    let sent = payload(1000, 5);
    let position = client.append(&sent);
    broker.kill();
    assert!(client.is_closed());
    broker.restart().unwrap();
    let mut client = Client::connect(&broker);
    assert!(client.fetch(position, 1000) == sent);
    broker.stop().unwrap();
    assert!(client.is_closed());
    assert!(TcpStream::connect(broker.address()).is_err());
    broker.restart().unwrap();
    assert!(Client::connect(&broker).fetch(position, 1000) == sent);
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused() {
    let broker = start();
    let setup = Setup {
        data_dir: Some(broker.data_dir().to_owned()),
        ..Setup::default()
    };
    let error = InProcess::launch(setup, Toy::default, None).err().unwrap();
    assert!(matches!(error, ServerError::DataDir(_)), "{error}");
}

#[test]
fn a_panic_in_a_step_ends_the_broker_with_a_word() {
    let mut broker = start();
    let mut client = Client::connect(&broker);
    client.send(1, b'!', b"");
    assert!(client.is_closed());
    let error = broker.stop().unwrap_err().to_string();
    assert!(error.contains("bug"), "{error}");
}

#[test]
fn a_transcript_is_what_a_plain_loop_would_do() {
    let transcript = Transcript::default();
    let recorder = transcript.clone();
    let broker: ToyBroker = InProcess::launch(
        Setup::default(),
        Toy::default,
        Some(Box::new(move || Box::new(recorder.clone()))),
    )
    .unwrap();
    let mut client = Client::connect(&broker);
    client.append(&payload(100, 1));
    drop(broker);
    let steps = transcript.steps();
    let text: Vec<String> = steps
        .iter()
        .map(|step| format!("{} => {}", step.input, step.effects.join("; ")))
        .collect();
    let text = text.join("\n");
    let expected = [
        "start => read op1 list .",
        "read op1: 0 entries => manage op2 write-file log 0 B",
        "managed op2 => open f1 log at 0; report log: opened at 0; started",
        "request c1 105 B => write f1 0+100",
        "disk written f1 up to 100 => flush f1",
        "disk flushed f1 up to 100 => respond c1 16 B",
    ];
    for line in expected {
        let line = line.strip_prefix("disk ").unwrap_or(line);
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let times: Vec<Mono> = steps.iter().map(|step| step.now.mono).collect();
    assert!(times.is_sorted());
}
