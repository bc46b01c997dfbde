//! The cluster's metadata: topics, configs, the cluster id, the leader epoch. An internal log of
//! [`record`]s is the only thing that changes the [`image`].

pub mod config;
pub mod image;
pub(crate) mod producer_ids;
pub mod record;
mod replay;
mod snapshot;
pub(crate) mod store;
pub(crate) mod topics;
