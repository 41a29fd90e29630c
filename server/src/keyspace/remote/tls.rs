//! TLS to an engine.
use std::path::PathBuf;

/// The files that TLS to an engine is made of, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineTls {
    /// The authorities that sign its certificates; without, those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that the server shows, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// In TLS 1.3 a client learns late that its certificate is asked for: by an alert, or by the connection's end if that is seen first.
pub(super) fn may_lack_a_certificate(text: &str) -> bool {
    let signs = ["closed", "fatal alert", "broken pipe", "reset"];
    let text = text.to_lowercase();
    signs.iter().any(|sign| text.contains(sign))
}
