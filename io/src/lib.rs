//! The edge of Odradek..
