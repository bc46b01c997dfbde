//! `odradek bench commit`: many connections, each with one record in flight.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use serde_json::{Map, Value};

use super::figures::{Sample, histogram, percentiles, record};
use super::frames::{BatchShape, ProduceAnswer, RequestFrame, refused};
use super::link::{Link, broken, nonsense};
use super::load::{Load, Running, Target, Times, parameters};
use super::topic::{Topic, TopicPlan};
use crate::failure::Failure;

/// The load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CommitLoad {
    /// Connections, all driven by one thread.
    #[arg(long, value_name = "N", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(super) connections: u32,
    /// Bytes of a record's value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) bytes: u32,
    /// Partitions; each connection sends to one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub(super) partitions: i32,
}

impl Load for CommitLoad {
    fn bench(&self) -> &'static str {
        "commit"
    }

    fn parameters(&self) -> Map<String, Value> {
        parameters([
            ("connections", self.connections.into()),
            ("bytes", self.bytes.into()),
            ("partitions", self.partitions.into()),
        ])
    }

    fn title(&self) -> String {
        let over = match self.partitions {
            1 => String::new(),
            count => format!(" over {count} partitions"),
        };
        format!(
            "{}, one {} B record each{over}",
            crate::output::counted(self.connections.into(), "connection", "connections"),
            self.bytes
        )
    }

    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure> {
        let shape = BatchShape {
            records: 1,
            value_bytes: self.bytes,
        };
        let plan = TopicPlan {
            partitions: self.partitions,
            configs: vec![("file.delete.delay.ms", "0".to_owned())],
        };
        let topic = Topic::create(target, &plan, shape)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| cannot_wait(&error))?;
        let batch = shape.batch();
        let mut clients = Vec::new();
        for number in 0..self.connections {
            let partition = i32::try_from(number).unwrap_or_default() % self.partitions;
            let stream = Link::connect(target.address)?.stream;
            stream
                .set_nonblocking(true)
                .map_err(|error| broken(&error))?;
            epoll::add(
                &epoll,
                &stream,
                EventData::new_u64(number.into()),
                EventFlags::IN,
            )
            .map_err(|error| cannot_wait(&error))?;
            clients.push(Client {
                stream,
                frame: RequestFrame::produce(&topic.name, partition, batch.clone()),
                buffer: [0; ANSWER_BYTES],
                filled: 0,
                sent: Instant::now(),
            });
        }
        Ok(Box::new(CommitRun {
            answer: ProduceAnswer::new(&topic.name),
            topic,
            epoll,
            clients,
        }))
    }
}

/// An answer to one batch is shorter.
const ANSWER_BYTES: usize = 512;

struct CommitRun {
    topic: Topic,
    epoll: OwnedFd,
    clients: Vec<Client>,
    answer: ProduceAnswer,
}

struct Client {
    stream: TcpStream,
    frame: RequestFrame,
    buffer: [u8; ANSWER_BYTES],
    filled: usize,
    sent: Instant,
}

impl Running for CommitRun {
    fn round(&mut self, times: Times) -> Result<Sample, Failure> {
        let (begin, end) = times.starting_now();
        let mut latencies = histogram();
        let mut first = None;
        let mut last = begin;
        let mut events = Vec::with_capacity(1024);
        for client in &mut self.clients {
            client.send()?;
        }
        let mut waiting = self.clients.len();
        while waiting > 0 {
            self.wait(&mut events)?;
            for event in events.drain(..) {
                let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                let client = self.clients.get_mut(number).ok_or_else(nonsense)?;
                if !client.receive(self.answer)? {
                    continue;
                }
                let now = Instant::now();
                if now >= end {
                    waiting -= 1;
                    continue;
                }
                if first.is_some() {
                    record(&mut latencies, now - client.sent);
                    last = now;
                } else if now >= begin {
                    first = Some(now);
                }
                client.send()?;
            }
        }
        let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
        let mut sample = vec![("records_per_s", latencies.len() as f64 / seconds.max(1e-9))];
        percentiles(&latencies, &mut sample);
        Ok(sample)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let Self { topic, clients, .. } = *self;
        drop(clients);
        topic.delete()
    }
}

impl CommitRun {
    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<(), Failure> {
        let patience = Timespec::try_from(Duration::from_secs(60)).ok();
        match epoll::wait(&self.epoll, spare_capacity(events), patience.as_ref()) {
            Ok(0) => Err(broken(&io::ErrorKind::TimedOut.into())),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(cannot_wait(&error)),
        }
    }
}

impl Client {
    fn send(&mut self) -> Result<(), Failure> {
        self.sent = Instant::now();
        // With one small request in flight there is always room for it.
        self.stream
            .write_all(self.frame.numbered(0))
            .map_err(|error| broken(&error))
    }

    /// Whether the answer is there.
    fn receive(&mut self, answer: ProduceAnswer) -> Result<bool, Failure> {
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        match self.stream.read(room) {
            Ok(0) => {
                return Err(Failure::failed(
                    "the broker closed a connection; its log says why",
                ));
            }
            Ok(count) => self.filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(broken(&error)),
        }
        let frame = self.buffer.get(..self.filled).unwrap_or_default();
        let Some(length) = frame.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
            return Ok(false);
        };
        let total = 4 + length as usize;
        if total > ANSWER_BYTES {
            return Err(nonsense());
        }
        if total > self.filled {
            return Ok(false);
        }
        answer
            .base_offset(frame)
            .map_err(|error| refused("a batch", error))?;
        self.filled = 0;
        Ok(true)
    }
}

fn cannot_wait(error: &rustix::io::Errno) -> Failure {
    Failure::failed(format!("cannot wait for sockets: {error}"))
}
