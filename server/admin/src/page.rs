//! The page for operators: files that show the data of the other paths and load nothing from other hosts.
use super::reply::{self, Reply};
use super::response_body::ResponseBody;
use bytes::Bytes;
use hyper::StatusCode;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageAsset {
    pub(super) path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

/// Declares the files by path, media type and name.
macro_rules! assets {
    ($($path:literal $media_type:ident $name:literal,)*) => {
        &[$(PageAsset {
            path: $path,
            media_type: $media_type,
            text: include_str!(concat!("page/", $name)),
        }),*]
    };
}

static ASSETS: &[PageAsset] = assets![
    "/" HTML "page.html",
    "/page.css" CSS "page.css",
    "/icon.svg" SVG "icon.svg",
    "/page.js" JAVASCRIPT "page.js",
    "/api.js" JAVASCRIPT "api.js",
    "/chart.js" JAVASCRIPT "chart.js",
    "/clients.js" JAVASCRIPT "clients.js",
    "/cluster.js" JAVASCRIPT "cluster.js",
    "/dialog.js" JAVASCRIPT "dialog.js",
    "/dom.js" JAVASCRIPT "dom.js",
    "/entry.js" JAVASCRIPT "entry.js",
    "/figures.js" JAVASCRIPT "figures.js",
    "/format.js" JAVASCRIPT "format.js",
    "/json.js" JAVASCRIPT "json.js",
    "/keys.js" JAVASCRIPT "keys.js",
    "/live.js" JAVASCRIPT "live.js",
    "/load.js" JAVASCRIPT "load.js",
    "/locks.js" JAVASCRIPT "locks.js",
    "/overview.js" JAVASCRIPT "overview.js",
    "/records.js" JAVASCRIPT "records.js",
];

impl PageAsset {
    /// Returns the file at a path.
    pub(super) fn find(path: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.path == path)
    }

    pub(super) fn to_reply(&self) -> Reply {
        let whole = ResponseBody::Full(Bytes::from_static(self.text.as_bytes()));
        reply::content(StatusCode::OK, self.media_type, whole)
    }
}
