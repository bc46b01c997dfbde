//! One TCP connection of a client: a task that connects and reads, and a queue that is written at
//! once as far as the socket takes it.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use odradek_core::client::ClientInput;
use odradek_core::ids::ConnectionId;
use odradek_core::input::Endpoint;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::shared::{Outgoing, Shared};

/// A connection as the state machine's effects see it. Dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Link {
    task: AbortHandle,
    /// Once it is connected.
    stream: Option<Arc<TcpStream>>,
    outgoing: Outgoing,
    /// Wakes the task when it has to wait until the socket takes more.
    blocked: Arc<Notify>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    pub(super) fn new(task: AbortHandle) -> Self {
        Self {
            task,
            stream: None,
            outgoing: Outgoing::new(),
            blocked: Arc::new(Notify::new()),
        }
    }

    /// Queues a frame and writes what the socket takes.
    pub(super) fn send(&mut self, frame: Vec<Bytes>) {
        let idle = self.outgoing.is_empty();
        self.outgoing.extend(frame);
        // A socket that took less before is written to by the task, once it takes more. One that
        // fails fails its reader too, which is who tells.
        if idle && self.write().is_ok() && !self.outgoing.is_empty() {
            self.blocked.notify_one();
        }
    }

    fn write(&mut self) -> io::Result<()> {
        match &self.stream {
            Some(stream) => write(stream, &mut self.outgoing),
            None => Ok(()),
        }
    }

    /// Ends the connection. What was to be sent before still is: records with acks=0 count as
    /// delivered once they are here.
    pub(super) fn rest(mut self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let stream = self.stream.take()?;
        let mut outgoing = std::mem::take(&mut self.outgoing);
        if outgoing.is_empty() {
            return None;
        }
        Some(async move {
            let write_all = async {
                while !outgoing.is_empty() && stream.writable().await.is_ok() {
                    if write(&stream, &mut outgoing).is_err() {
                        break;
                    }
                }
            };
            // A broker that takes nothing for so long will not take the rest either.
            drop(tokio::time::timeout(PATIENCE, write_all).await);
        })
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

/// Writes what the socket takes now.
fn write(stream: &TcpStream, outgoing: &mut Outgoing) -> io::Result<()> {
    while !outgoing.is_empty() {
        let mut slices = [IoSlice::new(&[]); 16];
        let mut used = 0;
        for (slice, bytes) in slices.iter_mut().zip(outgoing.iter()) {
            *slice = IoSlice::new(bytes);
            used += 1;
        }
        let slices = slices.get(..used).unwrap_or_default();
        match stream.try_write_vectored(slices) {
            Ok(written) => advance(outgoing, written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => {
                outgoing.clear();
                return Err(error);
            }
        }
    }
    Ok(())
}

fn advance(outgoing: &mut Outgoing, mut written: usize) {
    while let Some(first) = outgoing.front_mut() {
        if written < first.len() {
            first.advance(written);
            return;
        }
        written -= first.len();
        outgoing.pop_front();
    }
}

/// Connects, then reads until the connection ends.
pub(super) async fn run(shared: Arc<Shared>, id: ConnectionId, endpoint: Endpoint) {
    let connected = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
    let stream = match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
        Ok(stream) => Arc::new(stream),
        Err(error) => {
            return shared.step(ClientInput::ConnectFailed {
                connection: id,
                reason: error.to_string(),
            });
        }
    };
    let attached = shared.with_link(id, |link| {
        link.stream = Some(stream.clone());
        link.blocked.clone()
    });
    let Some(blocked) = attached else {
        return;
    };
    shared.step(ClientInput::Connected { connection: id });
    if let Err(error) = serve(&shared, id, &stream, &blocked).await {
        tracing::debug!(target: "odradek::client", connection = %id, %error, "connection ends");
    }
    shared.step(ClientInput::Disconnected { connection: id });
}

async fn serve(
    shared: &Arc<Shared>,
    id: ConnectionId,
    stream: &TcpStream,
    blocked: &Notify,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        let has_more = shared.with_link(id, |link| !link.outgoing.is_empty());
        let interest = if has_more == Some(true) {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let ready = tokio::select! {
            ready = stream.ready(interest) => ready?,
            () = blocked.notified() => continue,
        };
        if ready.is_writable() {
            shared.with_link(id, Link::write).transpose()?;
        }
        if ready.is_readable() {
            read(shared, id, stream, &mut buffer)?;
        }
    }
}

/// Takes what the socket has, and brings the frames that are whole.
fn read(
    shared: &Arc<Shared>,
    id: ConnectionId,
    stream: &TcpStream,
    buffer: &mut BytesMut,
) -> io::Result<()> {
    loop {
        // Doubles with what really came, whatever length a frame claims to have.
        buffer.reserve(buffer.len().clamp(16 << 10, 4 << 20));
        match stream.try_read_buf(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        while let Some(frame) = next_frame(buffer, shared.max_response_bytes)? {
            shared.step(ClientInput::Received {
                connection: id,
                frame,
            });
        }
    }
}

fn next_frame(buffer: &mut BytesMut, max_bytes: usize) -> io::Result<Option<Bytes>> {
    let Some(length) = buffer.first_chunk() else {
        return Ok(None);
    };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .ok()
        .filter(|length| *length <= max_bytes)
        .ok_or_else(|| io::Error::other("a frame has no sensible length"))?;
    if buffer.len() < LENGTH_BYTES + length {
        return Ok(None);
    }
    buffer.advance(LENGTH_BYTES);
    Ok(Some(buffer.split_to(length).freeze()))
}

const LENGTH_BYTES: usize = 4;
