//! The SCAN request.
mod entry_scan;
mod pager;
mod scan_stream;

pub use entry_scan::EntryScan;
pub use scan_stream::ScanStream;

use super::{Client, detach};
use crate::AsBytes;
use crate::error::Error;
use bytes::Bytes;
use pager::ScanPager;
use statestore_protocol::Reply;
use std::collections::VecDeque;
use std::time::Duration;

/// Options of [`Client::scan_with`] and [`Client::scan_entries_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScanOptions {
    /// Time limit of the request for each page; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// Whether [`scan_entries`](Client::scan_entries) reads the values with [`get_many`](Client::get_many) if the store lacks
    /// [`Capabilities::scan_values`](crate::Capabilities::scan_values). The remaining times are unknown then. Without this
    /// option, such a store returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    pub fallback: bool,
}

impl ScanOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`fallback`](Self#structfield.fallback).
    #[must_use]
    pub fn fallback(mut self, fallback: bool) -> Self {
        self.fallback = fallback;
        self
    }
}

/// The keys that match a pattern, page by page. No request is sent before the first page is requested.
///
/// Keys that exist during the whole scan are found. A key that is set or deleted meanwhile may be found or not. A store that
/// does not support SCAN returns [`ErrorKind::UnknownCommand`](crate::ErrorKind::UnknownCommand).
#[derive(Debug)]
pub struct Scan {
    pager: ScanPager,
    options: ScanOptions,
    keys: VecDeque<Bytes>,
}

impl Client {
    /// Scans for keys. The pattern is a glob: `*`, `?`, `[ab]`, `[0-9]`, `[!x]`, and `[*]` for a literal star.
    pub fn scan(&self, pattern: impl AsBytes) -> Scan {
        self.scan_with(pattern, ScanOptions::default())
    }

    /// Scans for keys, with options.
    pub fn scan_with(&self, pattern: impl AsBytes, options: ScanOptions) -> Scan {
        Scan {
            pager: ScanPager::new(self, pattern.as_ref()),
            options,
            keys: VecDeque::new(),
        }
    }
}

impl Scan {
    /// Returns the next page, or `None` after the last one. A page may be empty although others follow. After an error, the
    /// next call requests the same page again.
    ///
    /// Dropping the future loses no keys: the next call requests the same page again.
    ///
    /// # Errors
    /// Returns the error of the request. Returns [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse) if the pages
    /// form a cycle, or if 100,000 consecutive pages are empty.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        if !self.keys.is_empty() {
            return Ok(Some(std::mem::take(&mut self.keys).into()));
        }
        let Some(reply) = self.pager.request(false, self.options.timeout).await? else {
            return Ok(None);
        };
        let Reply::Page { keys, token } = reply else {
            return Err(self.pager.invalid("the response is not one to SCAN"));
        };
        self.pager.advance(keys.len(), token)?;
        Ok(Some(keys.into_iter().map(detach).collect()))
    }

    /// Returns the next key, or `None` after the last one.
    ///
    /// Dropping the future loses no keys.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Ok(Some(key));
            }
            match self.next_page().await? {
                Some(page) => self.keys = page.into(),
                None => return Ok(None),
            }
        }
    }
}
