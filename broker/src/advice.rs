//! What to do about an error that a broker or the client reports.

use odradek_core::client::{ClientError, Timeout};
use odradek_core::wire::ErrorCode;

use crate::failure::Failure;

/// A failure from an error that the client reports: what could not be done, why, what to do next.
pub(crate) fn failed(what: &str, error: &ClientError) -> Failure {
    Failure::failed(explain(what, error))
}

/// As [`failed`], as text.
pub(crate) fn explain(what: &str, error: &ClientError) -> String {
    match error {
        ClientError::Broker { code, message } => refused(what, *code, Some(message)),
        ClientError::TimedOut {
            what: Timeout::Request | Timeout::Metadata,
            last: None,
        } => format!("{what}: {error}; is the broker alive? --timeout waits longer"),
        // What the broker said last is why it never came about.
        ClientError::TimedOut {
            last: Some(code), ..
        } => with_next_step(format!("{what}: {error}"), *code),
        _ => format!("{what}: {error}"),
    }
}

/// What a broker's error code means here.
pub(crate) fn refused(what: &str, code: ErrorCode, message: Option<&str>) -> String {
    let why = match message {
        Some(message) if !message.is_empty() => {
            format!("{code:?}: {}", message.trim_end_matches('.'))
        }
        _ => code.to_string(),
    };
    with_next_step(format!("{what}: {why}"), code)
}

fn with_next_step(text: String, code: ErrorCode) -> String {
    match next_step(code) {
        "" => text,
        next => format!("{text}; {next}"),
    }
}

fn next_step(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            "`odradek topic list` shows what there is, `odradek topic create` makes it"
        }
        ErrorCode::TOPIC_ALREADY_EXISTS => {
            "`odradek topic describe` shows it; --if-not-exists takes it as it is"
        }
        ErrorCode::INVALID_CONFIG => {
            "`odradek topic describe NAME --all-configs` shows every config with its value"
        }
        ErrorCode::MESSAGE_TOO_LARGE => {
            "raise the topic's max.message.bytes with `odradek topic alter`"
        }
        ErrorCode::KAFKA_STORAGE_ERROR => "the broker's log says which file and why",
        ErrorCode::TOPIC_DELETION_DISABLED => {
            "start the broker with --set delete.topic.enable=true"
        }
        ErrorCode::OFFSET_OUT_OF_RANGE => {
            "`odradek topic describe` shows the offsets that are there"
        }
        ErrorCode::GROUP_ID_NOT_FOUND => "`odradek group list` shows what there is",
        ErrorCode::NON_EMPTY_GROUP => "stop its members first; `odradek group describe` shows them",
        ErrorCode::FENCED_INSTANCE_ID | ErrorCode::UNRELEASED_INSTANCE_ID => {
            "give each member an --instance-id of its own, or wait until the other's session is over"
        }
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL => {
            "its members divide partitions in another way: `odradek group describe` shows how, \
             --assignor follows"
        }
        ErrorCode::GROUP_MAX_SIZE_REACHED => {
            "raise the broker's group.max.size or group.consumer.max.size"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do_next() {
        let text = refused(
            "cannot create 'a'",
            ErrorCode::TOPIC_ALREADY_EXISTS,
            Some("Topic 'a' already exists."),
        );
        assert_eq!(
            text,
            "cannot create 'a': TOPIC_ALREADY_EXISTS: Topic 'a' already exists; `odradek topic \
             describe` shows it; --if-not-exists takes it as it is"
        );
        let text = refused("x", ErrorCode::UNKNOWN_SERVER_ERROR, None);
        assert!(text.starts_with("x: UNKNOWN_SERVER_ERROR (-1): "), "{text}");
    }
}
