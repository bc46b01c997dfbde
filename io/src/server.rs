//! A broker behind a socket: start, accept, stop.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use odradek_core::broker::Broker;
use odradek_core::ids::ConnectionId;
use odradek_core::input::Input;
use odradek_core::metadata::config::{BrokerConfig, ConfigProblem};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::buffer_pool::BufferPool;
use crate::clock::Clock;
use crate::connection;
use crate::data_dir::{self, DataDirError, DataDirLock};
use crate::disk::Disk;
use crate::driver::{Driver, Guest, Signal, Threads};
use crate::edge::{Edge, Timer};
use crate::hand_over::budget::Budget;
use crate::limits::Limits;
use crate::recorder::Recorder;

/// Connections that wait to be accepted: enough for 10,000 that come at once.
const BACKLOG: i32 = 16_384;
/// Memory kept for the next large frames.
const POOLED_BYTES: usize = 32 << 20;
const THREADS: Threads = Threads {
    // A flush mostly waits, and a disk carries out many at once: 100 files were flushed 280 times a
    // second by one thread, 4,000 times by 4, 11,000 times by 32. With 128, which lets all of them into
    // one commit of the filesystem's journal, 500 producers over 100 partitions got a third more done.
    // They start when they are needed.
    flushers: 128,
    workers: 4,
};
/// Where random bytes come from.
const RANDOM: &str = "/dev/urandom";
/// How long a stop waits for clients to take their last responses.
const DRAIN: Duration = Duration::from_secs(3);
/// How long nothing is accepted after descriptors ran out.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Where a server listens and keeps its data, and its bounds. What the broker itself is
/// configured with is in the guest.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Made if it is missing.
    pub data_dir: PathBuf,
    /// Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Bounds of the edge.
    pub limits: Limits,
}

/// A running server. Dropping it ends it as a killed process would.
#[derive(Debug)]
pub struct Server<G: Guest = Broker> {
    local_addr: SocketAddr,
    shared: Arc<Shared<G>>,
    accepting: JoinHandle<()>,
    timing: JoinHandle<()>,
    signal: watch::Receiver<Option<Signal>>,
    _lock: DataDirLock,
}

/// What all connections of a server share.
pub(crate) struct Shared<G: Guest> {
    pub(crate) driver: Arc<Driver<G, Edge>>,
    pub(crate) limits: Limits,
    pub(crate) buffers: Arc<BufferPool>,
    connections: AtomicUsize,
    /// Told when a connection has ended.
    ended: tokio::sync::Notify,
}

/// Why a server cannot start or go on, in words for the person who runs it.
#[derive(Debug)]
pub enum ServerError {
    /// The data directory cannot be used.
    DataDir(DataDirError),
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        error: io::Error,
    },
    /// A thread cannot be started.
    Threads(io::Error),
    /// The system gives no random bytes.
    Random(io::Error),
    /// The configuration makes no sense.
    Config(ConfigProblem),
    /// The broker gave up, with this message.
    Fatal(String),
}

impl Server<Broker> {
    /// Starts a broker with this configuration; what concerns the edge in it (`max.connections`,
    /// `socket.request.max.bytes`, ...) is taken from its properties. Port 0 picks a free one.
    /// Otherwise as [`Self::start`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_broker(
        mut config: BrokerConfig,
        data_dir: PathBuf,
        listen: SocketAddr,
    ) -> Result<Self, ServerError> {
        config.data_dir = data_dir.display().to_string();
        let limits = Limits::for_this_process()
            .with_properties(&config.properties)
            .with_durability(config.durability);
        let options = ServerOptions {
            data_dir,
            listen,
            limits,
        };
        Self::start(Broker::new(config, random_seed()?), options).await
    }
}

/// A seed for [`Broker::new`], of the system's randomness.
///
/// # Errors
/// If the system has none.
pub fn random_seed() -> Result<[u8; 32], ServerError> {
    let mut seed = [0; 32];
    File::open(RANDOM)
        .and_then(|mut file| file.read_exact(&mut seed))
        .map_err(ServerError::Random)?;
    Ok(seed)
}

impl<G: Guest> Server<G> {
    /// Locks the data directory, listens, and returns once the broker has loaded what it holds.
    /// Clients that connect before are served then. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// If directory, address or threads cannot be had, or the broker refuses what it found.
    pub async fn start(guest: G, options: ServerOptions) -> Result<Self, ServerError> {
        Self::start_recorded(guest, options, None).await
    }

    /// As [`Self::start`], with someone who sees every step.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_recorded(
        guest: G,
        options: ServerOptions,
        recorder: Option<Box<dyn Recorder<G::Input>>>,
    ) -> Result<Self, ServerError> {
        let lock = data_dir::lock(&options.data_dir).map_err(ServerError::DataDir)?;
        let listener = listen(options.listen).map_err(|error| ServerError::Listen {
            address: options.listen,
            error,
        })?;
        let local_addr = listener.local_addr().unwrap_or(options.listen);
        let (sender, mut signal) = watch::channel(None);
        let clock = Clock::start();
        let edge = Edge {
            disk: Disk::new(options.data_dir, options.limits.max_open_files),
            clock,
            timer: Timer::new(),
            signal: sender,
        };
        let budget = Budget::new(options.limits.max_queued_request_bytes);
        let driver = Driver::start(
            guest,
            edge,
            budget,
            THREADS,
            options.limits.gather_bytes,
            recorder,
        )
        .map_err(ServerError::Threads)?;
        let shared = Arc::new(Shared {
            driver,
            limits: options.limits,
            buffers: BufferPool::new(POOLED_BYTES),
            connections: AtomicUsize::new(0),
            ended: tokio::sync::Notify::new(),
        });
        let timing = tokio::spawn(keep_time(shared.driver.clone()));
        shared.driver.step(Input::Start);
        if let Err(error) = await_signal(&mut signal, &Signal::Started).await {
            timing.abort();
            shared.driver.abandon();
            return Err(error);
        }
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            local_addr,
            shared,
            accepting,
            timing,
            signal,
            _lock: lock,
        })
    }

    /// The address it listens on, with the port that was picked.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns when the broker cannot go on.
    pub async fn failed(&mut self) -> ServerError {
        match self
            .signal
            .wait_for(|signal| matches!(signal, Some(Signal::Fatal(_))))
            .await
            .as_deref()
        {
            Ok(Some(Signal::Fatal(message))) => ServerError::Fatal(message.clone()),
            _ => ServerError::Fatal("the broker is gone".to_owned()),
        }
    }

    /// Stops gracefully: accepts no more, lets the broker finish, flush and mark its data as
    /// clean, sends what is left to send.
    ///
    /// # Errors
    /// If the broker could not end cleanly; the next start recovers.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        self.accepting.abort();
        self.shared.driver.step(Input::Stop);
        await_signal(&mut self.signal, &Signal::Stopped).await?;
        for client in self.shared.driver.clients() {
            client.outbox.close_when_sent();
        }
        let drained = async {
            loop {
                let ended = self.shared.ended.notified();
                if self.shared.connections.load(Ordering::SeqCst) == 0 {
                    return;
                }
                ended.await;
            }
        };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::debug!("some clients did not take their last responses in time");
        }
        Ok(())
    }

    fn end(&self) {
        self.accepting.abort();
        self.timing.abort();
        let clients = self.shared.driver.clients();
        self.shared.driver.abandon();
        for client in clients {
            client.outbox.close_now("the server is gone");
        }
    }
}

impl<G: Guest> Drop for Server<G> {
    /// Nothing is flushed and nothing marked: what is not written by now never will be. When this
    /// returns the data directory is left alone, but for writes that a connection's task has
    /// begun: those end before the runtime does.
    fn drop(&mut self) {
        self.end();
    }
}

impl<G: Guest> fmt::Debug for Shared<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("limits", &self.limits)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

async fn await_signal(
    signal: &mut watch::Receiver<Option<Signal>>,
    wanted: &Signal,
) -> Result<(), ServerError> {
    let reached = signal
        .wait_for(|signal| {
            signal.as_ref() == Some(wanted) || matches!(signal, Some(Signal::Fatal(_)))
        })
        .await;
    match reached.as_deref() {
        Ok(Some(Signal::Fatal(message))) => Err(ServerError::Fatal(message.clone())),
        Ok(_) => Ok(()),
        Err(_) => Err(ServerError::Fatal("the broker is gone".to_owned())),
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(bound(address)?)
}

/// A socket that listens and does not block.
pub(crate) fn bound(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restarted broker takes its port back while connections of the last one linger.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn keep_time<G: Guest>(driver: Arc<Driver<G, Edge>>) {
    loop {
        driver.host.timer.fire(&driver.host.clock).await;
        driver.deadline();
    }
}

async fn accept<G: Guest>(listener: TcpListener, shared: Arc<Shared<G>>) {
    let mut number = 0;
    let mut out_of_descriptors = false;
    let mut over_limit = false;
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                if matches!(
                    errno,
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                ) {
                    if !out_of_descriptors {
                        tracing::error!(target: "odradek::connection",
                            "cannot accept connections: {error}; raise the limit of open files \
                             (ulimit -n), or lower max.connections; trying again");
                    }
                    out_of_descriptors = true;
                    tokio::time::sleep(BACK_OFF).await;
                }
                // Anything else is about that one connection.
                continue;
            }
        };
        if out_of_descriptors {
            tracing::info!(target: "odradek::connection", "accepting connections again");
            out_of_descriptors = false;
        }
        let open = shared.connections.fetch_add(1, Ordering::SeqCst);
        if open >= shared.limits.max_connections {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            if !over_limit {
                tracing::warn!(target: "odradek::connection", %peer,
                    "closing at once: {open} connections are open (max.connections); more are \
                     refused without a word until one ends");
            }
            over_limit = true;
            continue;
        }
        over_limit = false;
        number += 1;
        tokio::spawn(serve(shared.clone(), stream, peer, ConnectionId(number)));
    }
}

async fn serve<G: Guest>(
    shared: Arc<Shared<G>>,
    stream: TcpStream,
    peer: SocketAddr,
    id: ConnectionId,
) {
    // Responses are sent whole; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    connection::serve(shared.clone(), stream, peer, id).await;
    shared.connections.fetch_sub(1, Ordering::SeqCst);
    shared.ended.notify_waiters();
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataDir(error) => error.fmt(f),
            Self::Listen { address, error } => {
                let advice = match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        "another process listens there: stop it, or choose another port"
                    }
                    io::ErrorKind::PermissionDenied => "ports below 1024 need special rights",
                    io::ErrorKind::AddrNotAvailable => "no interface of this machine has it",
                    _ => "choose another address",
                };
                write!(f, "cannot listen on {address}: {error}; {advice}")
            }
            Self::Threads(error) => write!(
                f,
                "cannot start a thread: {error}; raise the limit of processes (ulimit -u)"
            ),
            Self::Random(error) => write!(
                f,
                "cannot read random bytes from {RANDOM}: {error}; is /dev there?"
            ),
            Self::Config(problem) => problem.fmt(f),
            Self::Fatal(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::DataDir(error) => Some(error),
            Self::Listen { error, .. } | Self::Threads(error) | Self::Random(error) => Some(error),
            Self::Config(_) | Self::Fatal(_) => None,
        }
    }
}
