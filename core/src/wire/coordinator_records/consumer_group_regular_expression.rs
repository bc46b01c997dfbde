//! ConsumerGroupRegularExpression (16): what a subscribed regular expression matched.

use alloc::vec::Vec;

use crate::wire::text::Str;

data! {
    /// The group and the expression.
    pub data ConsumerGroupRegularExpressionKey (versions [0]) {
        group_id:           Str [0],
        regular_expression: Str [0],
    }
}

data! {
    /// What it matched, and when.
    pub data ConsumerGroupRegularExpressionValue (versions [0], flexible [0+]) {
        /// The topics that match.
        topics:    Vec<Str> [0+],
        /// The version of the metadata image it was resolved against.
        version:   i64      [0+],
        /// When, in milliseconds.
        timestamp: i64      [0+],
    }
}
