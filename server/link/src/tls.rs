//! TLS to an engine.
use std::path::PathBuf;

/// Files of the TLS connection to an engine, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineTls {
    /// Certificate authorities that sign the engine's certificates; by default those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that the server presents, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Returns whether an error may be due to a missing client certificate.
///
/// In TLS 1.3, a client learns late that its certificate is required: by an alert, or by the end of the connection.
pub fn may_lack_a_certificate(text: &str) -> bool {
    let signs = ["closed", "fatal alert", "broken pipe", "reset"];
    let text = text.to_lowercase();
    signs.iter().any(|sign| text.contains(sign))
}
