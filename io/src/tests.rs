//! Tests of the edge as a whole, with a toy for a guest.

mod toy;

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
mod bare;
#[cfg(not(feature = "shuttle"))]
mod broker;
#[cfg(not(feature = "shuttle"))]
mod end_to_end;
#[cfg(feature = "shuttle")]
mod schedules;
#[cfg(not(feature = "shuttle"))]
mod throughput;
