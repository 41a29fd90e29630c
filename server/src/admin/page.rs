//! The page for people: three files, which show the data of the other paths and load nothing from other hosts.
use super::reply::{self, Reply};
use super::response_body::ResponseBody;
use bytes::Bytes;
use hyper::StatusCode;

/// A part of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageAsset {
    Document,
    Style,
    Script,
    Icon,
}

impl PageAsset {
    pub(super) fn into_reply(self) -> Reply {
        let (kind, text) = match self {
            Self::Document => ("text/html; charset=utf-8", include_str!("page/page.html")),
            Self::Style => ("text/css; charset=utf-8", include_str!("page/page.css")),
            Self::Script => (
                "text/javascript; charset=utf-8",
                include_str!("page/page.js"),
            ),
            Self::Icon => ("image/svg+xml", include_str!("page/icon.svg")),
        };
        let whole = ResponseBody::Full(Bytes::from_static(text.as_bytes()));
        reply::content(StatusCode::OK, kind, whole)
    }
}
