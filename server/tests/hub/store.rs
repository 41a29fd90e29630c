//! The service whose keyspace is the embedded one.
use statestored::service::{Service, ServiceConfig};

pub(crate) fn open(config: ServiceConfig) -> Service {
    Service::embedded(config)
}
