//! Client for the Azure IoT Operations state store.
#![forbid(unsafe_code)]

pub mod mqtt;
pub mod protocol;
