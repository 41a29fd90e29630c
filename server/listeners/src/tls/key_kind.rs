//! The kind of a key, for messages about unsupported keys.
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// Algorithms and curves by their object identifiers.
const NAMES: [(&str, &str); 8] = [
    ("1.3.101.112", "Ed25519"),
    ("1.3.101.113", "Ed448"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.2.840.113549.1.1.10", "RSA for PSS only"),
    ("1.2.840.10045.3.1.7", "ECDSA over P-256"),
    ("1.3.132.0.34", "ECDSA over P-384"),
    ("1.3.132.0.35", "ECDSA over P-521"),
    ("1.3.132.0.10", "ECDSA over secp256k1"),
];

/// Returns the kind of a certificate's key, such as `RSA of 8192 bits`; `None` if it is unknown.
pub(super) fn key_kind(der: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let info = certificate.public_key();
    if let Ok(PublicKey::RSA(key)) = info.parsed() {
        return Some(format!("RSA of {} bits", key.key_size()));
    }
    let algorithm = &info.algorithm;
    // The parameter of an elliptic curve algorithm names the curve.
    let curve = algorithm
        .parameters
        .as_ref()
        .and_then(|parameters| parameters.as_oid().ok())
        .map(|curve| curve.to_id_string());
    let id = curve.unwrap_or_else(|| algorithm.algorithm.to_id_string());
    let known = NAMES.iter().find(|(known, _)| *known == id);
    Some(known.map_or_else(|| format!("of the kind {id}"), |(_, name)| (*name).into()))
}
