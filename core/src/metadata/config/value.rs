//! Types and bounds of config values.

use alloc::string::{String, ToString};
use core::fmt;

/// A config's type, by Kafka's code in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean = 1,
    /// Text.
    String = 2,
    /// 32-bit integer.
    Int = 3,
    /// 16-bit integer.
    Short = 4,
    /// 64-bit integer.
    Long = 5,
    /// A floating-point number, kept as text.
    Double = 6,
    /// Comma-separated words.
    List = 7,
    /// A Java class name.
    Class = 8,
    /// A secret.
    Password = 9,
}

/// Which values are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Whatever the type holds.
    Any,
    /// An integer of at least this.
    AtLeast(i64),
    /// An integer between the two, inclusive.
    Between(i64, i64),
    /// An integer between the first two, inclusive, or the third.
    BetweenOr(i64, i64, i64),
    /// A number between 0 and 1.
    Ratio,
    /// One of these words (each of them, in a list).
    OneOf(&'static [&'static str]),
}

/// Why a value is not one for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The value.
    pub value: String,
    /// What would have been one.
    pub expected: String,
}

impl ConfigType {
    /// Checks `value` against the type and the bounds.
    pub fn check(self, value: &str, bounds: Bounds) -> Result<(), InvalidValue> {
        let invalid = |expected: String| InvalidValue {
            value: value.to_string(),
            expected,
        };
        let number = |low: i64, high: i64, name: &str| match value.trim().parse::<i64>() {
            Ok(n) if n < low || n > high => {
                Err(invalid(alloc::format!("a {name} between {low} and {high}")))
            }
            Ok(n) => Ok(n),
            Err(_) => Err(invalid(alloc::format!("a number of type {name}"))),
        };
        let parsed = match self {
            Self::Boolean => match value.trim() {
                v if v.eq_ignore_ascii_case("true") || v.eq_ignore_ascii_case("false") => None,
                _ => return Err(invalid("true or false".to_string())),
            },
            Self::Short => Some(number(i64::from(i16::MIN), i64::from(i16::MAX), "SHORT")?),
            Self::Int => Some(number(i64::from(i32::MIN), i64::from(i32::MAX), "INT")?),
            Self::Long => Some(number(i64::MIN, i64::MAX, "LONG")?),
            Self::Double => {
                if value.trim().parse::<f64>().is_err() {
                    return Err(invalid("a number".to_string()));
                }
                None
            }
            Self::String | Self::List | Self::Class | Self::Password => None,
        };
        match bounds {
            Bounds::Any => Ok(()),
            Bounds::AtLeast(low) => match parsed {
                Some(n) if n < low => Err(invalid(alloc::format!("at least {low}"))),
                _ => Ok(()),
            },
            Bounds::Between(low, high) => match parsed {
                Some(n) if n < low || n > high => {
                    Err(invalid(alloc::format!("between {low} and {high}")))
                }
                _ => Ok(()),
            },
            Bounds::BetweenOr(low, high, other) => match parsed {
                Some(n) if n != other && (n < low || n > high) => Err(invalid(alloc::format!(
                    "between {low} and {high}, or {other}"
                ))),
                _ => Ok(()),
            },
            Bounds::Ratio => match value.trim().parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(()),
                _ => Err(invalid("a number between 0 and 1".to_string())),
            },
            Bounds::OneOf(words) => {
                let known = |word: &str| words.contains(&word);
                let good = if self == Self::List {
                    split_list(value).all(known)
                } else {
                    known(value)
                };
                if good {
                    Ok(())
                } else {
                    Err(invalid(match words {
                        [""] => "nothing: it can only be empty".to_string(),
                        _ => alloc::format!("one of {}", words.join(", ")),
                    }))
                }
            }
        }
    }
}

/// The words of a list value; an empty value has none.
pub(crate) fn split_list(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not valid: expected {}",
            self.value, self.expected
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_held_against_type_and_bounds() {
        assert!(ConfigType::Int.check("12", Bounds::AtLeast(1)).is_ok());
        assert!(ConfigType::Int.check("0", Bounds::AtLeast(1)).is_err());
        assert!(ConfigType::Int.check("3000000000", Bounds::Any).is_err());
        assert!(ConfigType::Long.check("3000000000", Bounds::Any).is_ok());
        assert!(ConfigType::Boolean.check("TRUE", Bounds::Any).is_ok());
        assert!(ConfigType::Boolean.check("yes", Bounds::Any).is_err());
        let policies = Bounds::OneOf(&["compact", "delete"]);
        assert!(ConfigType::List.check("compact,delete", policies).is_ok());
        assert!(ConfigType::List.check("compact,shred", policies).is_err());
    }
}
