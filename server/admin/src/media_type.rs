//! The media types that a client accepts.
use hyper::header::ACCEPT;
use hyper::http::request::Parts;

/// Returns whether the request names a media type in `Accept`.
pub(super) fn accepts(parts: &Parts, kind: &str) -> bool {
    let accepted = parts.headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains(kind))
}
