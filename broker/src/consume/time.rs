//! Times on the command line.

use std::time::{SystemTime, UNIX_EPOCH};

/// Reads milliseconds since 1970, an age (`-90m`), or a date with or without time of day in the
/// form of RFC 3339. What names no time zone is UTC. The result is in milliseconds since 1970.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn parse_time(text: &str) -> Result<i64, String> {
    parse(text, now_ms()).ok_or_else(|| {
        format!(
            "'@{text}' is no time: write milliseconds, an age such as @-90m, or a date such as \
             @2026-01-31 or @2026-01-31T08:00:00Z"
        )
    })
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

fn parse(text: &str, now_ms: i64) -> Option<i64> {
    if let Some(age) = text.strip_prefix('-') {
        let unit = match age.as_bytes().last()? {
            b's' => 1000,
            b'm' => 60_000,
            b'h' => 3_600_000,
            b'd' => 86_400_000,
            _ => return None,
        };
        let count = digits(age.get(..age.len() - 1)?)?;
        return now_ms.checked_sub(count.checked_mul(unit)?);
    }
    digits(text).or_else(|| date_time(text))
}

fn digits(text: &str) -> Option<i64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok()).flatten()
}

/// `YYYY-MM-DD`, then perhaps `T` or a space and `HH:MM[:SS[.fraction]]`, then perhaps `Z` or
/// `+HH:MM`.
fn date_time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut fields = date.split('-');
    let (year, month, day) = (fields.next()?, fields.next()?, fields.next()?);
    if (year.len(), month.len(), day.len()) != (4, 2, 2) || fields.next().is_some() {
        return None;
    }
    let days = days_since_1970(digits(year)?, digits(month)?, digits(day)?)?;
    let time = match rest.strip_prefix(['T', 't', ' ']) {
        Some(time) => time_of_day(time)?,
        None if rest.is_empty() => 0,
        None => return None,
    };
    Some(days * 86_400_000 + time)
}

/// Milliseconds since midnight in UTC.
fn time_of_day(text: &str) -> Option<i64> {
    let zone_at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at_checked(zone_at)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut fields = time.split(':');
    let mut field = |limit| two_digits(fields.next()?).filter(|number| *number < limit);
    let (hours, minutes) = (field(24)?, field(60)?);
    let seconds = match fields.next() {
        Some(seconds) => two_digits(seconds).filter(|number| *number < 60)?,
        None => 0,
    };
    let ms = digits(format!("{fraction:0<3}").get(..3)?)?;
    digits(fraction)?;
    let offset_minutes = match zone.split_at_checked(1) {
        None | Some(("Z" | "z", "")) => 0,
        Some((sign, offset)) => {
            let (hours, minutes) = offset.split_once(':')?;
            let minutes = two_digits(hours)? * 60 + two_digits(minutes)?;
            match sign {
                "+" => minutes,
                "-" => -minutes,
                _ => return None,
            }
        }
    };
    if fields.next().is_some() {
        return None;
    }
    let minutes = hours * 60 + minutes - offset_minutes;
    Some((minutes * 60 + seconds) * 1000 + ms)
}

fn two_digits(text: &str) -> Option<i64> {
    digits(text).filter(|_| text.len() == 2)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [
        31,
        if leap { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let before = usize::try_from(month - 1).ok()?;
    let length = *lengths.get(before)?;
    if day < 1 || day > length {
        return None;
    }
    let last = year - 1;
    let leap_days = last / 4 - last / 100 + last / 400;
    let to_year = last * 365 + leap_days;
    let in_year: i64 = lengths.iter().take(before).sum();
    // 719,162 days lie between the first of January of the years 1 and 1970.
    Some(to_year + in_year + day - 1 - 719_162)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        for (text, ms) in [
            ("0", 0),
            ("1700000000123", 1_700_000_000_123),
            ("-90m", 1_000_000_000_000 - 5_400_000),
            ("-2d", 1_000_000_000_000 - 172_800_000),
            ("1970-01-01", 0),
            ("2026-01-31", 1_769_817_600_000),
            ("2024-02-29T12:30:45Z", 1_709_209_845_000),
            ("2024-02-29T12:30:45.5Z", 1_709_209_845_500),
            ("2024-02-29 12:30", 1_709_209_800_000),
            ("2024-02-29T12:30:45.123456+02:00", 1_709_202_645_123),
            ("2000-03-01T00:00:00-00:30", 951_870_600_000),
        ] {
            assert_eq!(parse(text, 1_000_000_000_000), Some(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-",
            "-5",
            "-5w",
            "--5s",
            "2026-13-01",
            "2025-02-29",
            "2026-00-10",
            "26-01-01",
            "2026-01-31T",
            "2026-01-31T25:00",
            "2026-01-31T10",
            "2026-01-31T10:00:00X",
            "2026-01-31T10:00:00:00",
            "2026-01-31T10:00:00.Z",
            "99999999999999999999",
            "tomorrow",
        ] {
            assert_eq!(parse(text, 0), None, "{text}");
        }
    }
}
