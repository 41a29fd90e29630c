//! A service with the embedded keyspace.
use statestored_store::service::{Service, ServiceConfig};

pub(crate) fn open(config: ServiceConfig) -> Service {
    Service::embedded(config)
}
