//! One task per connection: reads frames, runs the step for each, and goes on sending where the
//! socket was full.
//!
//! The task waits in one place, [`Session::poll`], for whatever comes first. While nothing comes
//! it holds a socket, a timer and no buffer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::input::Endpoint;
use tokio::io::{AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, Sleep};

use crate::disk::descriptors::OpenFile;
use crate::driver::{Driver, Guest};
use crate::edge::{Edge, Socket};
use crate::frame_reader::FrameReader;
use crate::hand_over::budget::Admission;
use crate::hand_over::gathering::Part;
use crate::hand_over::outbox::Connection;
use crate::server::Shared;

/// After so many bytes of requests, or after so long, other tasks get their turn: what a request
/// costs does not show in its bytes.
const TURN_BYTES: usize = 512 << 10;
const TURN: Duration = Duration::from_millis(1);
/// What arrived together is written and answered together, up to so many bytes.
const TOGETHER_BYTES: usize = 128 << 10;
/// Up to so many bytes may wait for those of other connections.
const PATIENT_BYTES: usize = 32 << 10;
/// What a request weighs beside its bytes in both accounts.
const REQUEST_BYTES: usize = 4 << 10;
/// While others wait for memory, half a frame that does not grow for so long closes its connection.
const STALLED: Duration = Duration::from_secs(10);

/// Serves a client until one side has enough of it.
pub(crate) async fn serve<G: Guest>(
    shared: Arc<Shared<G>>,
    stream: TcpStream,
    peer: std::net::SocketAddr,
    id: ConnectionId,
) {
    let local = stream.local_addr().map_or_else(
        |_| Endpoint::default(),
        |local| Endpoint {
            host: local.ip().to_canonical().to_string(),
            port: local.port(),
        },
    );
    let (read, write) = stream.into_split();
    let socket = Socket::new(write, peer, shared.driver.host.clock);
    let host = peer.ip().to_canonical().to_string();
    let client = shared
        .driver
        .open(id, socket, local, host, shared.limits.max_in_flight);
    tracing::debug!(target: "odradek::connection", connection = %id, %peer, "opened");
    let mut session = Session {
        reader: FrameReader::new(
            shared.buffers.clone(),
            shared.driver.budget.clone(),
            shared.limits.max_request_bytes,
        ),
        read,
        buffered: false,
        privileged: false,
        check: Box::pin(tokio::time::sleep(shared.limits.max_idle)),
        watches_half: false,
        client,
        shared: &shared,
    };
    let end = session.run().await;
    session.end(&end);
}

struct Session<'a, G: Guest> {
    shared: &'a Shared<G>,
    client: Arc<Connection<Socket, Arc<OpenFile>>>,
    read: OwnedReadHalf,
    reader: FrameReader,
    /// The reader may hold whole frames that were not handed over.
    buffered: bool,
    /// See [`Admission::Privileged`].
    privileged: bool,
    /// When to look whether the connection is idle.
    check: Pin<Box<Sleep>>,
    /// The check is early because of half a frame.
    watches_half: bool,
}

/// Why a connection ended.
enum End {
    /// The client closed it, or the network did.
    Peer(String),
    /// We did, with this reason.
    Us(String),
}

enum Event {
    Read(usize),
    Buffered,
    Writable,
    Check,
}

impl<G: Guest> Session<'_, G> {
    async fn run(&mut self) -> End {
        loop {
            let event = poll_fn(|cx| self.poll(cx)).await;
            let more = match event {
                Err(end) => return end,
                Ok(Event::Read(bytes)) => {
                    self.reader.arrived(bytes);
                    self.client.socket.touch();
                    self.hand_over().await
                }
                Ok(Event::Buffered) => self.hand_over().await,
                Ok(Event::Writable) => {
                    self.client.outbox.writable();
                    self.shared.driver.send(&self.client);
                    Ok(false)
                }
                Ok(Event::Check) => self.check_idle().map_or(Ok(false), Err),
            };
            match more {
                Err(end) => return end,
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => {}
            }
        }
    }

    /// What comes first.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, End>> {
        let view = self.client.outbox.view(cx.waker());
        if let Some(reason) = view.closed {
            return Poll::Ready(Err(End::Us(reason)));
        }
        let stream: &TcpStream = self.read.as_ref();
        if view.full
            && let Poll::Ready(ready) = stream.poll_write_ready(cx)
        {
            return Poll::Ready(ready.map(|()| Event::Writable).map_err(network));
        }
        if !view.paused && self.buffered {
            return Poll::Ready(Ok(Event::Buffered));
        }
        if !view.paused && self.may_read(cx) {
            if let Poll::Ready(read) = self.poll_read(cx) {
                return Poll::Ready(read.map(Event::Read));
            }
        } else if let Poll::Ready(end) = self.poll_gone(cx) {
            return Poll::Ready(Err(end));
        }
        self.check.as_mut().poll(cx).map(|()| Ok(Event::Check))
    }

    fn may_read(&mut self, cx: &Context<'_>) -> bool {
        let half_read = self.reader.half_read() > 0;
        let admission = self
            .shared
            .driver
            .budget
            .admit(self.client.id.0, half_read, cx.waker());
        self.privileged |= admission == Admission::Privileged;
        admission != Admission::Wait
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, End>> {
        let stream: &TcpStream = self.read.as_ref();
        // Only now a buffer is needed.
        match stream.poll_read_ready(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(network(error))),
            Poll::Ready(Ok(())) => {}
        }
        let mut room = self.reader.room();
        let poll = pin!(self.read.read_buf(&mut room)).poll(cx);
        drop(room);
        match poll {
            Poll::Pending => {
                self.reader.settle();
                Poll::Pending
            }
            Poll::Ready(Ok(0)) => Poll::Ready(Err(End::Peer("closed by the client".to_owned()))),
            Poll::Ready(result) => Poll::Ready(result.map_err(network)),
        }
    }

    /// Whether the client is gone, as far as that shows while nothing is read: what waits on its
    /// behalf may be what the others wait for.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut byte = [0];
        match self.read.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => Poll::Ready(End::Peer("closed by the client".to_owned())),
            Poll::Ready(Err(error)) => Poll::Ready(network(error)),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Runs the step for every whole frame. Says whether more are there, after a fair share.
    async fn hand_over(&mut self) -> Result<bool, End> {
        let mut began = None;
        let mut turn = 0;
        loop {
            let (inputs, bytes, end) = self.take_requests();
            if !inputs.is_empty() {
                let taker = Taker(&self.shared.driver);
                match self.shared.driver.hand_in(inputs, bytes <= PATIENT_BYTES) {
                    Part::Lead => tokio::task::yield_now().await,
                    Part::Run => {}
                    Part::Follow => std::mem::forget(taker),
                }
            }
            if let Some(end) = end {
                return Err(end);
            }
            turn += bytes;
            if bytes == 0 || !self.buffered {
                return Ok(false);
            }
            // Nearly always the first round is the last.
            let began = began.get_or_insert_with(Instant::now);
            if turn >= TURN_BYTES || began.elapsed() >= TURN {
                return Ok(true);
            }
        }
    }

    /// The requests that have arrived, as many as belong into one step of work, and what they
    /// weigh.
    fn take_requests(&mut self) -> (Vec<G::Input>, usize, Option<End>) {
        let mut inputs = Vec::new();
        let mut bytes = 0;
        let codecs = self.shared.driver.codecs();
        self.buffered = true;
        while bytes < TOGETHER_BYTES && !self.client.outbox.is_busy() {
            let frame = match self.reader.next_frame() {
                Err(error) => return (inputs, bytes, Some(End::Us(error.to_string()))),
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    self.buffered = false;
                    self.watch_half();
                    break;
                }
            };
            if std::mem::take(&mut self.privileged) {
                self.shared.driver.budget.yield_privilege(self.client.id.0);
            }
            self.remember_client_id(&frame);
            bytes += frame.len() + REQUEST_BYTES;
            inputs.push(G::prepare(&codecs, self.client.id, frame));
            self.client.outbox.asked();
        }
        (inputs, bytes, None)
    }

    /// The name the client gives itself, for the log: every version of the request header has it
    /// at the same place.
    fn remember_client_id(&self, frame: &Bytes) {
        let known = &self.client.socket.client_id;
        if known.get().is_none()
            && let Some(rest) = frame.get(8..)
            && let Some((length, rest)) = rest.split_first_chunk()
            && let Ok(length) = usize::try_from(i16::from_be_bytes(*length))
            && let Some(name) = rest.get(..length.min(100))
        {
            let name = String::from_utf8_lossy(name).into_owned();
            known.get_or_init(|| name.into_boxed_str());
        }
    }

    /// Half a frame is looked at sooner than an idle connection.
    fn watch_half(&mut self) {
        if self.reader.half_read() > 0 && !self.watches_half {
            self.watches_half = true;
            let soon = Instant::now() + STALLED.min(self.shared.limits.max_idle);
            if soon < self.check.deadline() {
                self.check.as_mut().reset(soon);
            }
        }
    }

    fn check_idle(&mut self) -> Option<End> {
        let socket = &self.client.socket;
        let now_ms = self.shared.driver.host.clock.mono().0 / 1_000_000;
        let last_ms = socket.last_active_ms.load(Ordering::Relaxed);
        let idle = Duration::from_millis(now_ms.saturating_sub(last_ms));
        let max_idle = self.shared.limits.max_idle;
        let half = self.reader.half_read();
        let waits_for_core = self.client.outbox.waits_for_core();
        if half > 0 && idle >= STALLED && self.shared.driver.budget.is_crowded() {
            return Some(End::Us(format!(
                "{half} bytes of a frame and nothing more for {} s, while others wait for memory",
                idle.as_secs()
            )));
        }
        if idle >= max_idle && !waits_for_core {
            let what = if half > 0 {
                "in the middle of a frame "
            } else {
                ""
            };
            return Some(End::Us(format!(
                "idle {what}for {} ms (connections.max.idle.ms)",
                idle.as_millis()
            )));
        }
        let mut next = if waits_for_core {
            max_idle
        } else {
            max_idle.saturating_sub(idle)
        };
        if half > 0 {
            next = next.min(STALLED);
        } else {
            self.watches_half = false;
        }
        // A millisecond more, so that rounding does not wake it just before.
        let next = next + Duration::from_millis(1);
        self.check.as_mut().reset(Instant::now() + next);
        None
    }

    fn end(&self, end: &End) {
        let socket = &self.client.socket;
        let (connection, peer) = (self.client.id, socket.peer);
        let client_id = socket.client_id.get().map_or("", |name| name);
        let reason = match end {
            End::Peer(reason) => {
                tracing::debug!(target: "odradek::connection", %connection, %peer, client_id, "gone: {reason}");
                reason
            }
            End::Us(reason) => {
                tracing::info!(target: "odradek::connection", %connection, %peer, client_id, "closing: {reason}");
                reason
            }
        };
        self.shared.driver.close(&self.client, reason);
    }
}

/// Takes what was handed in, also if its connection's task is dropped while it waits for others.
struct Taker<'a, G: Guest>(&'a Driver<G, Edge>);

impl<G: Guest> Drop for Taker<'_, G> {
    fn drop(&mut self) {
        self.0.run_gathered();
    }
}

fn network(error: io::Error) -> End {
    End::Peer(error.to_string())
}
