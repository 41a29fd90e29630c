//! Files for TLS and passwords.
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files that one authority has issued.
pub(crate) struct TlsFixture {
    folder: TempDir,
}

fn authority(folder: &Path, name: &str) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate: Certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join(name), certificate.pem()).unwrap();
    Issuer::new(params, key)
}

impl TlsFixture {
    pub(crate) fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder };
        let issuer = authority(files.folder.path(), "ca.pem");
        let other = authority(files.folder.path(), "other-ca.pem");
        for (name, issuer) in [("engine", &issuer), ("server", &issuer), ("next", &other)] {
            let key = KeyPair::generate().unwrap();
            let names = ["127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            // A certificate with the name of its issuer would count as self-signed.
            let dn = &mut params.distinguished_name;
            dn.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, issuer).unwrap();
            std::fs::write(files.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(files.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        std::fs::write(files.path("password"), "secret\n").unwrap();
        std::fs::write(files.path("wrong-password"), "guessed\n").unwrap();
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
