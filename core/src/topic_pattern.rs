//! Regular expressions over names of topics: what members of groups subscribe with.

use alloc::string::{String, ToString};

use regex_lite::{Regex, RegexBuilder};

/// An expression may be this long, and take this much memory when it is compiled: together with the
/// length of names, this bounds the time that matching takes inside a step.
const MAX_EXPRESSION_BYTES: usize = 1_024;
const REGEX_BYTES: usize = 32 << 10;

/// An expression that matches whole names. Matching takes time linear in the name, whatever the
/// expression.
#[derive(Clone, Debug)]
pub(crate) struct TopicPattern {
    expression: String,
    regex: Regex,
}

/// An expression is none, or is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidPattern;

impl TopicPattern {
    pub(crate) fn new(expression: &str) -> Result<Self, InvalidPattern> {
        if expression.len() > MAX_EXPRESSION_BYTES {
            return Err(InvalidPattern);
        }
        // By itself first: "a)|(b" must not become valid by what is put around it.
        let build = |text: &str| {
            RegexBuilder::new(text)
                .size_limit(REGEX_BYTES)
                .build()
                .map_err(|_| InvalidPattern)
        };
        build(expression)?;
        Ok(Self {
            expression: expression.to_string(),
            regex: build(&alloc::format!("^(?:{expression})$"))?,
        })
    }

    /// As it was given.
    pub(crate) fn expression(&self) -> &str {
        &self.expression
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_match() {
        let pattern = TopicPattern::new("orders|paid-.*").unwrap();
        assert!(pattern.matches("orders") && pattern.matches("paid-"));
        assert!(!pattern.matches("orders-2") && !pattern.matches("unpaid-1"));
        assert_eq!(TopicPattern::new("a)|(b").unwrap_err(), InvalidPattern);
        assert_eq!(TopicPattern::new("(").unwrap_err(), InvalidPattern);
        assert!(TopicPattern::new(&"a".repeat(1_025)).is_err());
        assert!(TopicPattern::new("(a{1000}){1000}").is_err());
    }
}
