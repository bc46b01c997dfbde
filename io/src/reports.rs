//! The core's reports as `tracing` events, with the room as their target.

use odradek_core::report::{Level, Report};

/// `tracing` wants targets to be constants, so each room has its own callsite.
macro_rules! by_room {
    ($report:expr, $event:ident, $($room:literal)*) => {
        match $report.room {
            $($room => tracing::$event!(target: concat!("odradek::", $room), "{}", $report.message),)*
            room => tracing::$event!(target: "odradek::core", room, "{}", $report.message),
        }
    };
    ($report:expr, $event:ident) => {
        by_room!($report, $event,
            "checkpoint" "cleaner" "client" "config" "fetch" "group" "log" "metadata" "partition" "produce" "recovery"
            "request" "retention" "start" "stop" "topics")
    };
}

/// Logs a report.
pub(crate) fn log(report: &Report) {
    match report.level {
        Level::Error => by_room!(report, error),
        Level::Warn => by_room!(report, warn),
        Level::Info => by_room!(report, info),
        Level::Debug => by_room!(report, debug),
    }
}
