//! Certificates that this server presents as a client.
use crate::attached::AttachConfig;
use crate::storage_config::StorageConfig;
use statestored_listeners::PresentedCertificates;

/// Returns the certificates that this server presents to an engine and to a broker.
pub(crate) fn client_certificates(
    storage: &StorageConfig,
    attach: Option<&AttachConfig>,
) -> PresentedCertificates {
    let (engine, tls) = match storage {
        StorageConfig::Etcd(config) => ("etcd", config.tls.as_ref()),
        StorageConfig::Redis(config) => ("redis", config.tls.as_ref()),
        StorageConfig::Memory | StorageConfig::Durable(_) => ("", None),
    };
    let of_engine = tls.and_then(|tls| tls.identity.as_ref());
    let of_engine = of_engine.map(|identity| (engine, identity));
    let of_broker = attach.and_then(|attach| attach.identity.as_ref());
    let of_broker = of_broker.map(|identity| ("broker", identity));
    let identities = of_engine.into_iter().chain(of_broker);
    let files = identities.map(|(peer, (certificate, _))| (peer, certificate.clone()));
    PresentedCertificates::new(files)
}
