//! A broker inside the process of a test, with one call.
//!
//! ```
//! use odradek_io::test_broker::{TestBroker, TestOptions};
//!
//! let mut broker = TestBroker::start(TestOptions::fsync().set("num.partitions", "3"))?;
//! println!("clients connect to {}", broker.address());
//! broker.kill();
//! broker.restart()?;
//! broker.stop()?;
//! # Ok::<(), odradek_io::server::ServerError>(())
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use odradek_core::broker::Broker;
use odradek_core::log::config::Durability;
use odradek_core::metadata::config::BrokerConfig;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::driver::Guest;
use crate::limits::Limits;
use crate::recorder::Recorder;
use crate::server::{Server, ServerError, ServerOptions, random_seed};

/// A [`Broker`] in the test's process: on a free port of 127.0.0.1, in a directory that goes away.
pub type TestBroker = InProcess<Broker>;

/// How a [`TestBroker`] is set up.
#[derive(Clone, Debug)]
pub struct TestOptions {
    /// When an append counts as acknowledged.
    pub durability: Durability,
    /// The data directory; without one, a temporary one that goes away with the broker.
    pub data_dir: Option<PathBuf>,
    /// Kafka's broker properties.
    pub properties: Vec<(String, String)>,
}

impl TestOptions {
    /// Acknowledged means flushed.
    #[must_use]
    pub const fn fsync() -> Self {
        Self::new(Durability::Fsync)
    }

    /// Acknowledged means in the page cache.
    #[must_use]
    pub const fn os() -> Self {
        Self::new(Durability::Os)
    }

    /// Sets a broker property, by Kafka's name.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses this directory and leaves it there.
    #[must_use]
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    const fn new(durability: Durability) -> Self {
        Self {
            durability,
            data_dir: None,
            properties: Vec::new(),
        }
    }
}

impl InProcess<Broker> {
    /// Starts a broker.
    ///
    /// # Errors
    /// If a property is unknown or its value is none, and as [`Server::start`].
    pub fn start(options: TestOptions) -> Result<Self, ServerError> {
        let (mut config, _) =
            BrokerConfig::from_properties(options.properties).map_err(ServerError::Config)?;
        config.durability = options.durability;
        let setup = Setup {
            data_dir: options.data_dir,
            limits: Limits::for_this_process().with_properties(&config.properties),
        };
        let seed = random_seed()?;
        Self::launch(setup, move || Broker::new(config.clone(), seed), None)
    }
}

/// How long a test waits for the runtime of a broker to end.
const SHUTDOWN: Duration = Duration::from_secs(30);

type Make<G> = Box<dyn Fn() -> G + Send>;
type MakeRecorder<G> = Box<dyn Fn() -> Box<dyn Recorder<<G as Guest>::Input>> + Send>;

/// A guest that runs on a runtime of its own, so that it works in a plain test as in an async
/// one, with a port and a directory that it keeps over restarts.
pub struct InProcess<G: Guest> {
    make: Make<G>,
    make_recorder: Option<MakeRecorder<G>>,
    options: ServerOptions,
    address: SocketAddr,
    running: Option<Running>,
    temporary: Option<TempDir>,
}

struct Running {
    command: oneshot::Sender<Command>,
    thread: JoinHandle<Result<(), ServerError>>,
}

enum Command {
    Stop,
    Kill,
}

/// How an [`InProcess`] is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The data directory; without one, a temporary one that goes away with the broker.
    pub data_dir: Option<PathBuf>,
    /// Bounds of the edge.
    pub limits: Limits,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            data_dir: None,
            limits: Limits::for_this_process(),
        }
    }
}

impl<G: Guest> InProcess<G> {
    /// Starts on a free port of 127.0.0.1. `make` makes the guest, at each start anew.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn launch(
        setup: Setup,
        make: impl Fn() -> G + Send + 'static,
        make_recorder: Option<MakeRecorder<G>>,
    ) -> Result<Self, ServerError> {
        let (temporary, data_dir) = match setup.data_dir {
            Some(data_dir) => (None, data_dir),
            None => {
                let directory = TempDir::with_prefix("odradek-").map_err(ServerError::Threads)?;
                let path = directory.path().to_owned();
                (Some(directory), path)
            }
        };
        let mut this = Self {
            make: Box::new(make),
            make_recorder,
            options: ServerOptions {
                data_dir,
                listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                limits: setup.limits,
            },
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            running: None,
            temporary,
        };
        this.run()?;
        Ok(this)
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the data is.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.options.data_dir
    }

    /// Keeps the temporary directory, for a look at it after a failure.
    pub fn keep_data(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = temporary.keep();
        }
    }

    /// Stops gracefully. Nothing to do if it is not running.
    ///
    /// # Errors
    /// If the broker could not end cleanly.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        self.end(Command::Stop)
    }

    /// Ends at once, as SIGKILL would: nothing more is written, flushed or marked. What is in the
    /// page cache stays. When this returns the data directory is free.
    pub fn kill(&mut self) {
        // A kill has no result.
        let _ = self.end(Command::Kill);
    }

    /// Starts again on the same port and directory; kills first if it is running.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.kill();
        self.options.listen = self.address;
        self.run()
    }

    fn run(&mut self) -> Result<(), ServerError> {
        let guest = (self.make)();
        let recorder = self.make_recorder.as_ref().map(|make| make());
        let options = self.options.clone();
        let (started, is_started) = mpsc::channel();
        let (command, commands) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("odradek".to_owned())
            .spawn(move || run(guest, options, recorder, &started, commands))
            .map_err(ServerError::Threads)?;
        match is_started.recv() {
            Ok(address) => {
                self.address = address;
                self.running = Some(Running { command, thread });
                Ok(())
            }
            Err(mpsc::RecvError) => join(thread),
        }
    }

    fn end(&mut self, command: Command) -> Result<(), ServerError> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        // If the thread is over already, its result says why.
        let _ = running.command.send(command);
        join(running.thread)
    }
}

impl<G: Guest> Drop for InProcess<G> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn join(thread: JoinHandle<Result<(), ServerError>>) -> Result<(), ServerError> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run<G: Guest>(
    guest: G,
    options: ServerOptions,
    recorder: Option<Box<dyn Recorder<G::Input>>>,
    started: &mpsc::Sender<SocketAddr>,
    commands: oneshot::Receiver<Command>,
) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("odradek-io")
        .enable_all()
        .build()
        .map_err(ServerError::Threads)?;
    let result = runtime.block_on(async {
        let mut server = Server::start_recorded(guest, options, recorder).await?;
        // A test that is gone drops its end of the commands, which reads as a kill.
        let _ = started.send(server.local_addr());
        tokio::select! {
            command = commands => match command {
                Ok(Command::Stop) => server.stop().await,
                Ok(Command::Kill) | Err(_) => Ok(()),
            },
            error = server.failed() => Err(error),
        }
    });
    runtime.shutdown_timeout(SHUTDOWN);
    result
}
