//! What the edge holds at most. Over a limit there is back-pressure or a clear refusal, never
//! unbounded memory.

use std::collections::BTreeMap;
use std::time::Duration;

use odradek_core::log::Durability;
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
    /// While a log file is being flushed, small writes wait for the end of the flush until they are
    /// so many bytes together; 0 unless every answer waits for a flush.
    pub gather_bytes: usize,
}

/// What is gathered where answers wait for flushes: a batch of one record from each of a thousand
/// connections. More is worth writing beside the flush.
const GATHER_BYTES: usize = 192 << 10;

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
            gather_bytes: 0,
        }
    }

    /// These limits for a broker of this durability.
    #[must_use]
    pub const fn with_durability(mut self, durability: Durability) -> Self {
        self.gather_bytes = match durability {
            Durability::Fsync => GATHER_BYTES,
            Durability::Os => 0,
        };
        self
    }
}

impl Limits {
    /// These limits as far as a broker's properties do not say otherwise. Values that are no
    /// numbers were refused when the configuration was read.
    #[must_use]
    pub fn with_properties(mut self, properties: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| properties.get(name)?.trim().parse::<i64>().ok();
        // Kafka says "no limit" with -1.
        let size = |value: i64| usize::try_from(value).unwrap_or(usize::MAX / 2);
        if let Some(bytes) = number("socket.request.max.bytes") {
            self.max_request_bytes = size(bytes);
        }
        if let Some(bytes) = number("queued.max.request.bytes") {
            self.max_queued_request_bytes = size(bytes);
        }
        if let Some(ms) = number("connections.max.idle.ms") {
            self.max_idle = u64::try_from(ms).map_or(FOREVER, Duration::from_millis);
        }
        if let Some(connections) = number("max.connections") {
            // More than there are descriptors for would only fail in a less friendly way.
            self.max_connections = self.max_connections.min(size(connections));
        }
        self
    }
}

/// Longer than any process lives, and still short enough to add to a time.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_change_limits_and_minus_one_lifts_them() {
        let properties = [
            ("socket.request.max.bytes", "1000"),
            ("queued.max.request.bytes", "-1"),
            ("connections.max.idle.ms", " -1 "),
            ("max.connections", "2147483647"),
        ];
        let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let before = Limits::for_this_process();
        let limits = before.clone().with_properties(&properties.into());
        assert_eq!(limits.max_request_bytes, 1000);
        assert!(limits.max_queued_request_bytes > 1 << 40);
        assert_eq!(limits.max_idle, FOREVER);
        assert_eq!(limits.max_connections, before.max_connections);
        assert_eq!(limits.max_in_flight, before.max_in_flight);
    }
}
