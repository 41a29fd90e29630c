//! Responses, each with the security headers for browsers.
use super::response_body::ResponseBody;
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

/// A response.
pub(super) type Reply = Response<ResponseBody>;

/// Content security policy: a browser loads only the page's own parts, and nothing from other hosts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
];

/// Creates a response with this content.
pub(super) fn content(status: StatusCode, kind: &'static str, content: ResponseBody) -> Reply {
    let mut reply = Response::new(content);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    reply
}

/// Creates a response of plain text.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    let whole = ResponseBody::Full(text.into());
    content(status, "text/plain; charset=utf-8", whole)
}

/// Creates a response with a JSON document.
pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(bytes) => content(status, "application/json", ResponseBody::Full(bytes.into())),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
