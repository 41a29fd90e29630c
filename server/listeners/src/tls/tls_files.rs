//! The files of TLS: certificates, a key, a revocation list.
use super::TlsError;
use clap::ValueEnum;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use statestored_common::read_tracker;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use x509_parser::prelude::{CertificateRevocationList, FromDer};
use x509_parser::time::ASN1Time;
use zeroize::Zeroizing;

/// Permissions of other users to read or write a file.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// Maximum length of a file.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Files of the TLS configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of the server, and those between it and its authority, in PEM.
    pub certificate: PathBuf,
    /// Private key of the certificate, in PEM, without a password.
    pub key: PathBuf,
    /// Authorities that sign the certificates of clients, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Whether clients show a certificate. They are not asked for one without authorities.
    pub client_certificates: ClientCertificates,
    /// Revocation list of clients' certificates, in PEM.
    pub client_crl: Option<PathBuf>,
}

/// Whether clients show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientCertificates {
    /// No certificate is requested.
    Off,
    /// A client may send one, which must be valid.
    Optional,
    /// Each client must send a valid one.
    Required,
}

/// State of a file: device, inode, size, and the times when content and inode were changed, in seconds and nanoseconds.
/// `None` if there is no file.
pub(super) type FileStamp = Option<(u64, u64, u64, [i64; 4])>;

/// Returns the states of all files, in a fixed order.
pub(super) fn file_stamps(files: &TlsFiles) -> Vec<FileStamp> {
    let named = [Some(&files.certificate), Some(&files.key)];
    let more = [files.client_ca.as_ref(), files.client_crl.as_ref()];
    named
        .into_iter()
        .chain(more)
        .flatten()
        .map(|path| {
            read_tracker::record_path(path);
            let metadata = std::fs::metadata(path).ok()?;
            let times = [
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ];
            Some((metadata.dev(), metadata.ino(), metadata.size(), times))
        })
        .collect()
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    read_open(path, |_| ())
}

fn read_open(path: &Path, look: impl FnOnce(&File)) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let failed = |source| TlsError::Read {
        path: path.into(),
        source,
    };
    read_tracker::record_path(path);
    let file = File::open(path).map_err(failed)?;
    look(&file);
    let length = file.metadata().map_err(failed)?.len();
    if length > MAX_FILE_BYTES {
        return Err(TlsError::file(path, "is too large for this kind of file"));
    }
    // The buffer has room for the whole file: a growing buffer would leave copies behind.
    let capacity = usize::try_from(length).unwrap_or(0) + 64;
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Returns all sections of a kind, at least one.
fn sections<T: PemObject>(path: &Path, kind: &str) -> Result<Vec<T>, TlsError> {
    let bytes = read(path)?;
    let sections: Result<Vec<T>, _> = T::pem_slice_iter(&bytes).collect();
    match sections {
        Ok(sections) if sections.is_empty() => {
            let problem = format!("contains no {kind} in PEM");
            Err(TlsError::file(path, problem))
        }
        Ok(sections) => Ok(sections),
        Err(error) => Err(TlsError::file(
            path,
            format!("is not well-formed PEM: {error}"),
        )),
    }
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    sections(path, "certificate (a line `-----BEGIN CERTIFICATE-----`)")
}

pub(super) fn revocation_lists(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let lists: Vec<CertificateRevocationListDer<'static>> = sections(
        path,
        "list of revoked certificates (a line `-----BEGIN X509 CRL-----`)",
    )?;
    for list in &lists {
        let (_, list) = CertificateRevocationList::from_der(list).map_err(|error| {
            TlsError::file(path, format!("has a list that cannot be read: {error}"))
        })?;
        let next_update = list.next_update();
        if next_update.is_some_and(|next| next < ASN1Time::now()) {
            tracing::warn!(
                path = %path.display(),
                issuer = %list.issuer(),
                "a list of revoked certificates is out of date: a newer one should be there; it still counts"
            );
        }
    }
    Ok(lists)
}

/// Reads a private key in PKCS#8, PKCS#1 or SEC1, without a password.
pub(super) fn private_key(path: &Path) -> Result<Zeroizing<PrivateKeyDer<'static>>, TlsError> {
    let bytes = read_open(path, |file| {
        let mode = file
            .metadata()
            .map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & OTHERS_READ_OR_WRITE != 0) {
            tracing::warn!(
                "every user of this machine may read or change the private key in {path}: chmod o-rw {path}",
                path = path.display()
            );
        }
    })?;
    let is_encrypted = bytes
        .windows(b"ENCRYPTED".len())
        .any(|part| part == b"ENCRYPTED");
    if is_encrypted {
        let problem = "is protected by a password: write it without one (`openssl pkey`), readable for the server alone";
        return Err(TlsError::file(path, problem));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map(Zeroizing::new);
    key.map_err(|error| {
        let problem = match error {
            pem::Error::NoItemsFound => {
                "contains no private key in PEM (a line `-----BEGIN PRIVATE KEY-----`)".into()
            }
            error => format!("is not well-formed PEM: {error}"),
        };
        TlsError::file(path, problem)
    })
}
