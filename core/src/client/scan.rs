//! The SCAN request.
use super::call::Call;
use super::{Client, detach};
use crate::AsBytes;
use crate::error::Error;
use crate::request::OutgoingRequest;
use bytes::Bytes;
use statestore_protocol::{CommandRef, Reply};
use std::collections::VecDeque;
use std::time::Duration;

/// Options of [`Client::scan_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScanOptions {
    /// Time limit of the request for each page; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
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
}

/// The keys that match a pattern, page by page. No request is sent before the first page is requested.
///
/// Keys that exist during the whole scan are found. A key that is set or deleted meanwhile may be found or not. A store that
/// does not support SCAN returns [`ErrorKind::UnknownCommand`](crate::ErrorKind::UnknownCommand).
#[derive(Debug)]
pub struct Scan {
    client: Client,
    pattern: Bytes,
    options: ScanOptions,
    cursor: ScanCursor,
    keys: VecDeque<Bytes>,
    detector: EndlessScanDetector,
}

/// Maximum number of consecutive pages without a key, after which a scan fails.
const MAX_EMPTY_PAGES: u32 = 100_000;

/// Detector of scans that do not end.
#[derive(Debug, Default)]
struct EndlessScanDetector {
    /// Number of consecutive pages without a key.
    empty_pages: u32,
    /// An earlier token. The newest one replaces it after 1, 2, 4, … further pages, so that it finds a cycle of any length
    /// (Brent's algorithm).
    reference_token: Option<Bytes>,
    /// Number of pages since `reference_token` was set, and the limit after which it is replaced.
    pages: u64,
    limit: u64,
}

impl EndlessScanDetector {
    /// Records a page that has a successor. Returns the reason if the scan must not continue.
    fn record_page(&mut self, keys: usize, token: &Bytes) -> Result<(), &'static str> {
        if self.reference_token.as_ref() == Some(token) {
            return Err("the store returned the same page of the scan twice");
        }
        if keys > 0 {
            self.empty_pages = 0;
        } else if self.empty_pages == MAX_EMPTY_PAGES {
            return Err("100,000 consecutive pages have no key, and more follow");
        } else {
            self.empty_pages += 1;
        }
        if self.pages == self.limit {
            self.reference_token = Some(token.clone());
            self.limit = self.limit.saturating_mul(2).max(1);
            self.pages = 0;
        }
        self.pages += 1;
        Ok(())
    }
}

#[derive(Debug)]
enum ScanCursor {
    Start,
    After(Bytes),
    End,
}

impl Client {
    /// Scans for keys. The pattern is a glob: `*`, `?`, `[ab]`, `[0-9]`, `[!x]`, and `[*]` for a literal star.
    pub fn scan(&self, pattern: impl AsBytes) -> Scan {
        self.scan_with(pattern, ScanOptions::default())
    }

    /// Scans for keys, with options.
    pub fn scan_with(&self, pattern: impl AsBytes, options: ScanOptions) -> Scan {
        Scan {
            client: self.clone(),
            pattern: Bytes::copy_from_slice(pattern.as_ref()),
            options,
            cursor: ScanCursor::Start,
            keys: VecDeque::new(),
            detector: EndlessScanDetector::default(),
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
        let token = match &self.cursor {
            ScanCursor::Start => None,
            ScanCursor::After(token) => Some(token.clone()),
            ScanCursor::End => return Ok(None),
        };
        let token = token.as_deref();
        let command = CommandRef::Scan {
            pattern: &self.pattern,
            token,
            values: false,
        };
        let request = OutgoingRequest::new(command);
        let mut page = Call::new(self.client.shared(), request, self.options.timeout);
        let response = (&mut page).await?;
        let Reply::Page { keys, token: after } = response.reply else {
            return Err(page.invalid("the response is not one to SCAN"));
        };
        let after = after.map(detach);
        if let Some(after) = &after {
            let progress = self.detector.record_page(keys.len(), after);
            progress.map_err(|reason| page.invalid(reason))?;
        }
        drop(page);
        self.cursor = after.map_or(ScanCursor::End, ScanCursor::After);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: usize) -> Bytes {
        number.to_string().into()
    }

    #[test]
    fn a_token_cycle_of_any_length_is_detected() {
        for (start, length) in [(0, 1), (0, 2), (3, 1), (5, 7), (100, 64), (1_000, 999)] {
            let mut progress = EndlessScanDetector::default();
            let pages = (0..).take_while(|page| {
                let number = if *page < start {
                    *page
                } else {
                    start + (page - start) % length
                };
                progress.record_page(1, &token(number)).is_ok()
            });
            let pages = pages.count();
            assert!(pages <= 3 * (start + length), "{pages}: {start}, {length}");
        }
    }

    #[test]
    fn only_consecutive_empty_pages_count_as_endless() {
        let mut progress = EndlessScanDetector::default();
        let limit = MAX_EMPTY_PAGES as usize;
        for number in 0..limit {
            progress.record_page(0, &token(number)).unwrap();
        }
        progress.record_page(1, &token(limit)).unwrap();
        for number in 1..=limit {
            progress.record_page(0, &token(limit + number)).unwrap();
        }
        progress.record_page(0, &token(3 * limit)).unwrap_err();
    }
}
