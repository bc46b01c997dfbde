//! Where to begin reading.

use std::collections::BTreeMap;
use std::str::FromStr;

use odradek_core::client::{OffsetSpec, StartAt, TopicPartition};
use odradek_core::ids::Offset;

use super::Assignment;
use super::time::parse_time;
use crate::advice;
use crate::failure::Failure;
use crate::session::Session;

/// Where to begin reading, as the command line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// At the first record there is.
    Beginning,
    /// After the last record there is.
    End,
    /// At this offset.
    Offset(i64),
    /// So many before the end.
    Last(i64),
    /// At the first record that is not older than this, in milliseconds.
    Time(i64),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "beginning" | "earliest" => return Ok(Self::Beginning),
            "end" | "latest" => return Ok(Self::End),
            _ => {}
        }
        if let Some(time) = text.strip_prefix('@') {
            return parse_time(time).map(Self::Time);
        }
        match text.parse::<i64>() {
            Ok(offset) if offset >= 0 => Ok(Self::Offset(offset)),
            Ok(back) => back
                .checked_neg()
                .map(Self::Last)
                .ok_or_else(|| format!("{text} is too far back")),
            Err(_) => Err(format!(
                "'{text}' is no place to begin: say beginning, end, an offset, -N or @TIME"
            )),
        }
    }
}

/// Where each partition begins.
pub(super) fn positions(
    session: &Session,
    partitions: &[TopicPartition],
    from: From,
) -> Result<Assignment, Failure> {
    let all = |start: StartAt| partitions.iter().map(|one| (one.clone(), start)).collect();
    Ok(match from {
        From::Beginning => all(StartAt::Spec(OffsetSpec::Earliest)),
        From::End => all(StartAt::Spec(OffsetSpec::Latest)),
        From::Time(ms) => all(StartAt::Spec(OffsetSpec::Timestamp(ms))),
        From::Offset(offset) => all(StartAt::Offset(Offset(offset))),
        From::Last(count) => {
            let first = look_up(session, partitions, OffsetSpec::Earliest)?;
            let end = look_up(session, partitions, OffsetSpec::Latest)?;
            end.into_iter()
                .map(|(partition, end)| {
                    let first = first.get(&partition).copied().unwrap_or_default();
                    let start = first.max(Offset(end.0.saturating_sub(count)));
                    (partition, StartAt::Offset(start))
                })
                .collect()
        }
    })
}

/// Looks up the same of every partition.
pub(super) fn look_up(
    session: &Session,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
) -> Result<BTreeMap<TopicPartition, Offset>, Failure> {
    let wanted = partitions.iter().map(|one| (one.clone(), spec)).collect();
    let found = session.offsets(wanted)?.into_iter();
    found
        .map(|(partition, found)| match found {
            Ok(found) => Ok((partition, found.offset.unwrap_or_default())),
            Err(error) => {
                let what = format!("cannot look up the offsets of {partition}");
                Err(advice::failed(&what, &error))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_begin_is_read() {
        for (text, from) in [
            ("beginning", From::Beginning),
            ("end", From::End),
            ("0", From::Offset(0)),
            ("17", From::Offset(17)),
            ("-3", From::Last(3)),
            ("@1700000000000", From::Time(1_700_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(from), "{text}");
        }
        for wrong in ["", "start", "1.5", "@", "-9223372036854775808"] {
            assert!(wrong.parse::<From>().is_err(), "{wrong}");
        }
    }
}
