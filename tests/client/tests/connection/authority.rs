//! Certificates for tests.
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use std::sync::Arc;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        }
    }

    /// The authority's own certificate.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A certificate for these host names and addresses.
    pub(crate) fn issue<const N: usize>(&self, names: [&str; N]) -> Identity {
        self.issue_with(names, |_| {})
    }

    pub(crate) fn issue_with<const N: usize>(
        &self,
        names: [&str; N],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = KeyPair::generate().unwrap();
        self.certify(names, &key, change)
    }

    /// A certificate for a key that is there already.
    pub(crate) fn certify<const N: usize>(
        &self,
        names: [&str; N],
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let mut params = CertificateParams::new(names.map(str::to_owned)).unwrap();
        change(&mut params);
        Identity {
            certificate: params.signed_by(key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}
