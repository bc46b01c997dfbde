//! A connection to a cluster, as the commands need it: asked for something, it answers or says in
//! words why not.

use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use odradek_core::client::{
    AdminTarget, ClientConfig, ClientError, FoundOffset, OffsetSpec, TopicPartition,
};
use odradek_core::ids::NodeId;
use odradek_core::input::Endpoint;
use odradek_core::wire::messages::MetadataRequest;
use odradek_core::wire::messages::metadata::{MetadataRequestTopic, MetadataResponseTopic};
use odradek_core::wire::{RequestBody, ResponseBody};
use odradek_io::client::{Client, Consumer, Producer};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::address::parse_bootstrap;
use crate::advice;
use crate::failure::Failure;
use crate::logging::{self, LogFormat};

/// Where the cluster is, and how long to wait for it.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectArgs {
    /// Brokers to ask first, separated by commas.
    #[arg(
        long,
        short,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9092"
    )]
    #[arg(value_delimiter = ',', value_parser = parse_bootstrap)]
    bootstrap: Vec<Endpoint>,
    /// How long to wait for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: u32,
    /// Log what the client does to standard error, with levels as of `odradek serve`.
    #[arg(long, value_name = "LEVELS")]
    log: Option<String>,
}

/// What a look-up found, in the order of the question.
pub(crate) type FoundOffsets = Vec<(TopicPartition, Result<FoundOffset, ClientError>)>;

/// How long a close may take: whatever matters has been awaited before.
const CLOSE: Duration = Duration::from_secs(1);

/// How long it may take to leave a group: the commit waits for the disk.
const LEAVE: Duration = Duration::from_secs(10);

/// A client on a runtime of its own.
#[derive(Debug)]
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
    timeout: Duration,
}

impl ConnectArgs {
    /// How long to wait for an answer, in milliseconds.
    pub(crate) const fn timeout_ms(&self) -> u32 {
        self.timeout * 1000
    }
}

impl Session {
    /// Connects with Kafka's defaults.
    pub(crate) fn open(args: &ConnectArgs) -> Result<Self, Failure> {
        Self::open_with(args, |_| {})
    }

    /// Connects.
    pub(crate) fn open_with(
        args: &ConnectArgs,
        tune: impl FnOnce(&mut ClientConfig),
    ) -> Result<Self, Failure> {
        if let Some(levels) = &args.log {
            logging::start(levels, LogFormat::Human)?;
        }
        let mut config = ClientConfig::new(args.bootstrap.clone());
        "odradek-cli".clone_into(&mut config.client_id);
        config.allow_auto_create_topics = false;
        config.request_timeout_ms = args.timeout_ms();
        config.producer.max_block_ms = args.timeout_ms();
        tune(&mut config);
        // A thread of its own for the sockets: whoever feeds the client never waits for them.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        let timeout = Duration::from_secs(args.timeout.into());
        runtime.block_on(somebody_listens(&args.bootstrap, timeout))?;
        let started = runtime.block_on(async { Client::start(&config) });
        let client = started.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        Ok(Self {
            runtime,
            client,
            timeout,
        })
    }

    /// How long to wait for an answer.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends records.
    pub(crate) fn producer(&self) -> Producer {
        self.client.producer()
    }

    /// Reads records.
    pub(crate) fn consumer(&self) -> Consumer {
        self.client.consumer()
    }

    /// Waits for so long.
    pub(crate) fn pause(&self, time: Duration) {
        self.block_on(tokio::time::sleep(time));
    }

    /// Runs something that needs the client.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Asks a broker; `what` begins the message if there is no answer.
    pub(crate) fn ask(
        &self,
        to: AdminTarget,
        body: impl Into<RequestBody>,
        what: &str,
    ) -> Result<ResponseBody, Failure> {
        self.block_on(self.client.admin().request(to, body, self.timeout))
            .map_err(|error| advice::failed(what, &error))
    }

    /// The topics of these names, or all. One that does not exist comes with its error.
    pub(crate) fn topics(
        &self,
        names: Option<&[String]>,
    ) -> Result<Vec<MetadataResponseTopic>, Failure> {
        let wanted = |name: &String| MetadataRequestTopic {
            name: Some(name.as_str().into()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: names.map(|names| names.iter().map(wanted).collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        match self.ask(AdminTarget::Any, request, "cannot read the topics")? {
            ResponseBody::Metadata(response) => Ok(response.topics),
            _ => Err(Self::unexpected_answer()),
        }
    }

    /// The brokers there are.
    pub(crate) fn brokers(&self) -> Result<Vec<NodeId>, Failure> {
        let request = MetadataRequest {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        match self.ask(AdminTarget::Any, request, "cannot find the brokers")? {
            ResponseBody::Metadata(response) => {
                let brokers = response.brokers.iter();
                Ok(brokers.map(|broker| NodeId(broker.node_id)).collect())
            }
            _ => Err(Self::unexpected_answer()),
        }
    }

    /// The numbers of a topic's partitions.
    pub(crate) fn partitions(&self, topic: &str) -> Result<Vec<i32>, Failure> {
        self.block_on(self.client.admin().partitions(topic, self.timeout))
            .map_err(|error| advice::failed(&format!("cannot read '{topic}'"), &error))
    }

    /// Looks offsets up; the answers are in the order of the question.
    pub(crate) fn offsets(
        &self,
        wanted: Vec<(TopicPartition, OffsetSpec)>,
    ) -> Result<FoundOffsets, Failure> {
        let count = wanted.len();
        let found = self.block_on(self.consumer().offsets(wanted, self.timeout));
        if found.len() == count {
            Ok(found)
        } else {
            Err(Self::unexpected_answer())
        }
    }

    /// Ends the connections.
    pub(crate) fn close(self) {
        self.runtime.block_on(self.client.close(CLOSE));
    }

    /// Commits what was read, leaves the group, and ends the connections.
    pub(crate) fn close_group(self) {
        self.runtime.block_on(self.client.close(LEAVE));
    }

    /// The client gave something else than what was asked for.
    pub(crate) fn unexpected_answer() -> Failure {
        Failure::failed("the broker's answer is not one to what was asked; is it a Kafka broker?")
    }
}

/// The client tries again and again, as a client must that runs for months; a command says at once
/// that nobody is there.
async fn somebody_listens(bootstrap: &[Endpoint], timeout: Duration) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    for endpoint in bootstrap {
        match connect(endpoint, timeout).await {
            Ok(()) => return Ok(()),
            Err(why) => reasons.push(format!("{endpoint} ({why})")),
        }
    }
    Err(Failure::failed(format!(
        "no broker answers at {}; start one with `odradek serve`, or say with --bootstrap where it \
         is",
        reasons.join(", ")
    )))
}

async fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<(), String> {
    let addresses: Vec<SocketAddr> = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map_err(|error| error.to_string())?
        .collect();
    let connecting = TcpStream::connect(addresses.as_slice());
    match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no connection in time".to_owned()),
    }
}
