//! Producers and consumers together, in an open loop: each batch is sent when its time has come,
//! and its latency runs from that time until a consumer has it.
//!
//! A partition is a lane: a thread that sends on one connection, and a thread that waits for
//! records on another.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::net::{RecvFlags, recv};

use super::figures::{histogram, merge, record};
use super::frames::{
    BatchShape, FetchAnswer, FetchFrame, ProduceAnswer, RequestFrame, batches, refused,
};
use super::link::{Link, nonsense};
use super::load::{Target, Times};
use super::schedule::{Schedule, be_punctual, wait_until};
use super::topic::{Topic, TopicPlan};
use crate::failure::Failure;

/// How long a consumer's fetch waits for a record.
const MAX_WAIT_MS: i32 = 100;
/// How much a consumer takes at once.
const FETCH_BYTES: u32 = 4 << 20;
/// How long after the end what was acknowledged may take to reach its consumer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Frames up to so many bytes are sent with one call, if several are due.
const GATHER_BYTES: usize = 64 << 10;

/// Lanes that are ready.
pub(super) struct Flow {
    topic: Topic,
    lanes: Vec<Lane>,
    /// Batches a second on each lane.
    per_second: f64,
}

/// What a round found.
pub(super) struct Found {
    /// From the scheduled time of a batch to its arrival, of what was due in the measured time.
    pub(super) latencies: Histogram<u64>,
    /// Records that arrived of those.
    pub(super) received: u64,
    /// Records that were due and were not sent, because the broker took no more.
    pub(super) unsent: u64,
    /// Records that were acknowledged and did not arrive.
    pub(super) lost: u64,
}

struct Lane {
    sender: Sender,
    receiver: Receiver,
}

struct Sender {
    link: Link,
    frame: RequestFrame,
    answer: ProduceAnswer,
    records: i64,
    /// Offset of the next batch that is sent.
    next_offset: i64,
}

struct Receiver {
    link: Link,
    frame: FetchFrame,
    answer: FetchAnswer,
    records: i64,
    next_offset: i64,
}

/// The times of a round.
#[derive(Clone, Copy)]
struct Course {
    schedule: Schedule,
    begin: Instant,
    end: Instant,
}

impl Flow {
    /// Makes the topic and connects.
    pub(super) fn open(
        target: &Target,
        plan: &TopicPlan,
        shape: BatchShape,
        per_second: f64,
    ) -> Result<Self, Failure> {
        let topic = Topic::create(target, plan, shape)?;
        let batch = shape.batch();
        let records = i64::from(shape.records);
        let lanes = topic
            .next_offsets
            .iter()
            .zip(0..)
            .map(|(next_offset, partition)| {
                Ok(Lane {
                    sender: Sender {
                        link: Link::connect(target.address)?,
                        frame: RequestFrame::produce(&topic.name, partition, batch.clone()),
                        answer: ProduceAnswer::new(&topic.name),
                        records,
                        next_offset: *next_offset,
                    },
                    receiver: Receiver {
                        link: Link::connect(target.address)?,
                        frame: FetchFrame::new(&topic.name, partition, MAX_WAIT_MS, FETCH_BYTES),
                        answer: FetchAnswer::new(&topic.name),
                        records,
                        next_offset: *next_offset,
                    },
                })
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Self {
            topic,
            lanes,
            per_second,
        })
    }

    /// One round on all lanes.
    pub(super) fn run(&mut self, times: Times) -> Result<Found, Failure> {
        let start = Instant::now() + Duration::from_millis(5);
        let begin = start + times.warm_up;
        let course = Course {
            schedule: Schedule::new(start, self.per_second),
            begin,
            end: begin + times.measure,
        };
        let results: Vec<Result<Found, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .lanes
                .iter_mut()
                .map(|lane| scope.spawn(move || lane.run(course)))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().expect("a lane reports, it does not panic")
            };
            threads.into_iter().map(join).collect()
        });
        let mut all = Found {
            latencies: histogram(),
            received: 0,
            unsent: 0,
            lost: 0,
        };
        for found in results {
            let found = found?;
            merge(&mut all.latencies, &found.latencies)?;
            all.received += found.received;
            all.unsent += found.unsent;
            all.lost += found.lost;
        }
        Ok(all)
    }

    /// Deletes the topic.
    pub(super) fn close(self) -> Result<(), Failure> {
        drop(self.lanes);
        self.topic.delete()
    }
}

/// The offset at which a consumer is done, while that is not known.
const UNKNOWN: i64 = i64::MAX;

impl Lane {
    fn run(&mut self, course: Course) -> Result<Found, Failure> {
        let Self { sender, receiver } = self;
        let done = AtomicI64::new(UNKNOWN);
        let first_offset = sender.next_offset;
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                be_punctual();
                let sent = sender.run(course);
                // Even if it failed: the other thread must end.
                done.store(sender.next_offset, Ordering::SeqCst);
                sent
            });
            let received = receiver.run(course, first_offset, &done);
            let unsent = sending
                .join()
                .expect("a sender reports, it does not panic")?;
            let mut found = received?;
            found.unsent = unsent;
            Ok(found)
        })
    }
}

impl Sender {
    /// Sends what is due when it is due. Returns how many records were not sent in time.
    fn run(&mut self, course: Course) -> Result<u64, Failure> {
        let first_offset = self.next_offset;
        let mut sent = 0;
        let mut answered = 0;
        let mut out = Vec::new();
        loop {
            let now = Instant::now();
            if now >= course.end {
                break;
            }
            let due = course.schedule.due_by(now);
            while sent < due && out.len() < GATHER_BYTES {
                out.extend_from_slice(self.frame.numbered(sent as u32));
                sent += 1;
            }
            if !out.is_empty() {
                self.link.send(&out)?;
                self.next_offset = first_offset + self.records * sent as i64;
                out.clear();
            }
            self.take_answers(&mut answered, first_offset)?;
            if sent >= due {
                wait_until(course.schedule.due(sent).min(course.end));
            }
        }
        while answered < sent {
            self.link.reader.fill(&mut self.link.stream)?;
            self.check_answers(&mut answered, first_offset)?;
        }
        let due = course.schedule.due_by(course.end);
        Ok(due.saturating_sub(sent) * self.records as u64)
    }

    /// Takes the answers that are there, without waiting.
    fn take_answers(&mut self, answered: &mut u64, first_offset: i64) -> Result<(), Failure> {
        loop {
            let reader = &mut self.link.reader;
            let received = recv(&self.link.stream, reader.room(), RecvFlags::DONTWAIT);
            match received {
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                result => reader.read(result.map(|(count, _)| count).map_err(Into::into))?,
            }
            self.check_answers(answered, first_offset)?;
        }
    }

    fn check_answers(&mut self, answered: &mut u64, first_offset: i64) -> Result<(), Failure> {
        while let Some(frame) = self.link.reader.next() {
            let base_offset = self
                .answer
                .base_offset(frame)
                .map_err(|error| refused("a batch", error))?;
            if base_offset != first_offset + self.records * *answered as i64 {
                return Err(Failure::failed(format!(
                    "a batch got offset {base_offset}, which is not the next one: does someone \
                     else write to this topic?"
                )));
            }
            *answered += 1;
        }
        Ok(())
    }
}

impl Receiver {
    fn run(
        &mut self,
        course: Course,
        first_offset: i64,
        done: &AtomicI64,
    ) -> Result<Found, Failure> {
        let mut found = Found {
            latencies: histogram(),
            received: 0,
            unsent: 0,
            lost: 0,
        };
        let deadline = course.end + PATIENCE;
        loop {
            let end = done.load(Ordering::SeqCst);
            if self.next_offset >= end {
                return Ok(found);
            }
            if end != UNKNOWN && Instant::now() > deadline {
                found.lost += (end - self.next_offset).unsigned_abs();
                self.next_offset = end;
                return Ok(found);
            }
            self.link.send(self.frame.at(self.next_offset))?;
            let answer = self.link.receive()?;
            let now = Instant::now();
            let records = self
                .answer
                .records(answer)
                .map_err(|error| refused("a fetch", error))?;
            for (base_offset, count, _) in batches(records) {
                if base_offset < self.next_offset {
                    continue;
                }
                found.lost += (base_offset - self.next_offset).unsigned_abs();
                self.next_offset = base_offset + i64::from(count);
                let number = (base_offset - first_offset) / self.records;
                let number = u64::try_from(number).map_err(|_| nonsense())?;
                let due = course.schedule.due(number);
                if due >= course.begin {
                    record(&mut found.latencies, now.saturating_duration_since(due));
                    found.received += u64::from(count);
                }
            }
        }
    }
}
