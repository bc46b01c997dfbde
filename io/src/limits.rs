//! What the edge holds at most. Over a limit there is back-pressure or a clear refusal, never
//! unbounded memory.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bounds of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `socket.request.max.bytes`: the largest frame, without its length.
    pub max_request_bytes: usize,
    /// `queued.max.request.bytes`: request bytes in memory over all connections.
    pub max_queued_request_bytes: usize,
    /// Requests of one connection whose responses are not sent: beyond it, its socket is not read.
    pub max_in_flight: usize,
    /// `max.connections`: one more is closed at once.
    pub max_connections: usize,
    /// `connections.max.idle.ms`: without a byte in either direction, and with no request that
    /// waits for the broker, a connection is closed after this time.
    pub max_idle: Duration,
    /// How many log files are kept open.
    pub max_open_files: usize,
}

impl Limits {
    /// Kafka's defaults where it has one, and what the limit on open descriptors allows: half of
    /// them for log files, half for connections, and a few for everything else.
    #[must_use]
    pub fn for_this_process() -> Self {
        let descriptors = getrlimit(Resource::Nofile)
            .current
            .map_or(usize::MAX / 4, |limit| {
                usize::try_from(limit).unwrap_or(usize::MAX)
            });
        Self {
            max_request_bytes: 100 << 20,
            max_queued_request_bytes: 256 << 20,
            max_in_flight: 128,
            max_connections: (descriptors / 2).saturating_sub(32).max(16),
            max_idle: Duration::from_secs(600),
            max_open_files: (descriptors / 2).max(16),
        }
    }
}

/// Raises the number of descriptors this process may open to what the system allows it, since the
/// usual 1,024 are soon used up. Returns the number. Call it before
/// [`Limits::for_this_process`].
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, raised).is_err() {
        tracing::debug!("the limit of open files stays at {:?}", limit.current);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
