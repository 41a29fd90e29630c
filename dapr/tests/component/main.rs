//! The component as daprd meets it: the real binary, over its socket, with a store in this process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod concurrency;
mod consistency;
mod crashes;
mod expiry;
mod faults;
mod harness;
mod instances;
mod limits;
mod outages;
mod peers;
mod plain_stores;
mod process;
mod transactions;
mod values;
