//! The bare loops of the bench: what is left of a broker when there is no broker in it.
//!
//! They do the work that cannot be left out, as leanly as one knows how: receive, find the batch,
//! check its CRC, walk over its records, set its offset, append to files that roll and are
//! deleted, answer; and send ranges of these files. They keep no promise: nothing is recovered,
//! one log holds everything whatever topic a request names, and a client that they do not
//! understand is cut off. What a broker reaches is stated as a share of what they reach.
//!
//! One thread on epoll does everything. With flushes there is one more, which flushes whatever
//! was appended meanwhile and then writes the answers that waited for it to the sockets itself.

mod connection;
mod flusher;
mod log;
mod requests;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use connection::{Connection, Received};
use flusher::Flusher;
use log::RollingLog;
use requests::{Answers, Request};

/// How many connections one wake-up serves.
const MAX_EVENTS: usize = 1024;
/// What epoll says for the listener; connections have their place in the list.
const LISTENER: u64 = u64::MAX;

/// How a bare loop runs.
#[derive(Clone, Debug)]
pub struct BareOptions {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// An existing directory for its files.
    pub directory: PathBuf,
    /// Whether a batch is flushed before its answer.
    pub flush: bool,
    /// At which size a file is rolled, in bytes.
    pub segment_bytes: u64,
}

/// A bare loop that listens.
pub struct BareServer {
    listener: TcpListener,
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    log: RollingLog,
    answers: Answers,
    flusher: Option<Flusher>,
}

/// A batch in the buffer of its connection that is about to be written.
struct Append {
    connection: usize,
    batch: std::ops::Range<usize>,
}

impl BareServer {
    /// Listens, and makes its first file.
    ///
    /// # Errors
    /// If the address, the file or the flush thread cannot be had.
    pub fn bind(options: &BareOptions) -> io::Result<Self> {
        let listener = crate::server::bound(options.listen)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        Ok(Self {
            listener,
            epoll,
            connections: Vec::new(),
            free: Vec::new(),
            log: RollingLog::create(options.directory.clone(), options.segment_bytes)?,
            answers: Answers::default(),
            flusher: options.flush.then(Flusher::start).transpose()?,
        })
    }

    /// The address it listens on, with the port that was picked.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until something fails that is not the fault of a client.
    ///
    /// # Errors
    /// What failed: the log, epoll, or the listener.
    pub fn run(mut self) -> io::Result<Infallible> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        let mut ready = Vec::with_capacity(MAX_EVENTS);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    place => ready.push(usize::try_from(place).unwrap_or(usize::MAX)),
                }
            }
            self.serve(&mut ready)?;
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let place = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let data = EventData::new_u64(place as u64);
            epoll::add(&self.epoll, &stream, data, EventFlags::IN)?;
            if let Some(slot) = self.connections.get_mut(place) {
                *slot = Some(Connection::new(stream));
            }
        }
    }

    /// Receives from all that are ready, writes what came with one call, and answers.
    fn serve(&mut self, ready: &mut Vec<usize>) -> io::Result<()> {
        let mut appends = Vec::new();
        let mut gone = Vec::new();
        for &place in ready.iter() {
            if self.receive(place, &mut appends).is_none() {
                gone.push(place);
            }
        }
        let batches = appends.iter().filter_map(|append: &Append| {
            let connection = self.connections.get(append.connection)?.as_ref()?;
            connection.bytes(append.batch.clone())
        });
        let file = self.log.write(batches)?;
        match (&self.flusher, file) {
            (Some(flusher), Some(file)) => {
                let answers = ready.iter().filter_map(|place| {
                    let connection = self.connections.get_mut(*place)?.as_mut()?;
                    connection.take_answers()
                });
                flusher.push(file, answers);
            }
            _ => {
                for &place in ready.iter() {
                    let connection = self.connections.get_mut(place).and_then(Option::as_mut);
                    if connection.is_some_and(|connection| connection.send_answers().is_err()) {
                        gone.push(place);
                    }
                }
            }
        }
        for place in ready.drain(..) {
            if let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) {
                connection.move_rest();
            }
        }
        // Only now: what they had sent before was written from their buffers.
        for place in gone {
            self.drop_connection(place);
        }
        Ok(())
    }

    /// Reads what has come from one connection; `None` ends it.
    fn receive(&mut self, place: usize, appends: &mut Vec<Append>) -> Option<()> {
        let connection = self.connections.get_mut(place)?.as_mut()?;
        match connection.receive() {
            Received::Closed => return None,
            Received::Nothing => return Some(()),
            Received::Bytes => {}
        }
        while let Some(frame) = connection.next_frame()? {
            let at = frame.start;
            let (correlation_id, request) = requests::read(connection.bytes(frame)?)?;
            match request {
                Request::Produce { topic, batch } => {
                    let batch = at + batch.start..at + batch.end;
                    let checked = requests::check(connection.bytes(batch.clone())?)?;
                    let base_offset = self.log.reserve(checked.records, checked.bytes);
                    let topic = connection.bytes(at + topic.start..at + topic.end)?;
                    let answer = self.answers.produce(topic, correlation_id, base_offset);
                    connection.set_base_offset(batch.start, base_offset)?;
                    connection.answer(answer);
                    appends.push(Append {
                        connection: place,
                        batch,
                    });
                }
                Request::Fetch {
                    topic,
                    offset,
                    max_bytes,
                } => {
                    let range = self.log.range(offset, max_bytes)?;
                    let topic = connection.bytes(at + topic.start..at + topic.end)?;
                    let (before, after) = self.answers.fetch(topic, correlation_id, range.length);
                    connection.send_range(before, &range, after).ok()?;
                }
                Request::Other => connection.answer(&Answers::ping(correlation_id)),
            }
        }
        Some(())
    }

    fn drop_connection(&mut self, place: usize) {
        if let Some(slot) = self.connections.get_mut(place)
            && slot.take().is_some()
        {
            self.free.push(place);
        }
    }
}

impl fmt::Debug for BareServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BareServer")
            .field("listener", &self.listener)
            .field("flush", &self.flusher.is_some())
            .finish_non_exhaustive()
    }
}
