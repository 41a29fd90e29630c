//! Requests for the pages of a scan, and the detection of scans that do not end.
use crate::Client;
use crate::client::call::{Call, invalid};
use crate::client::detach;
use crate::error::Error;
use crate::request::OutgoingRequest;
use bytes::Bytes;
use statestore_protocol::{CommandRef, Reply};
use std::time::Duration;

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

/// The position of a scan, and the requests for its pages.
#[derive(Debug)]
pub(super) struct ScanPager {
    client: Client,
    pattern: Bytes,
    cursor: ScanCursor,
    detector: EndlessScanDetector,
}

impl ScanPager {
    pub(super) fn new(client: &Client, pattern: &[u8]) -> Self {
        Self {
            client: client.clone(),
            pattern: Bytes::copy_from_slice(pattern),
            cursor: ScanCursor::Start,
            detector: EndlessScanDetector::default(),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the request for the next page, with or without `values`; `None` after the last page.
    pub(super) fn command(&self, values: bool) -> Option<CommandRef<'_>> {
        let token = match &self.cursor {
            ScanCursor::Start => None,
            ScanCursor::After(token) => Some(&token[..]),
            ScanCursor::End => return None,
        };
        Some(CommandRef::Scan {
            pattern: &self.pattern,
            token,
            values,
        })
    }

    /// Requests the next page, with or without `values`. Returns `None` after the last page. The position does not change
    /// before [`advance`](Self::advance).
    pub(super) async fn request(
        &self,
        values: bool,
        timeout: Option<Duration>,
    ) -> Result<Option<Reply>, Error> {
        let Some(command) = self.command(values) else {
            return Ok(None);
        };
        let request = OutgoingRequest::new(command);
        let response = Call::new(self.client.shared(), request, timeout).await?;
        Ok(Some(response.reply))
    }

    /// Moves behind a page with this number of keys, whose successor has this token.
    pub(super) fn advance(&mut self, keys: usize, token: Option<Bytes>) -> Result<(), Error> {
        let token = token.map(detach);
        if let Some(token) = &token {
            let progress = self.detector.record_page(keys, token);
            progress.map_err(|reason| self.invalid(reason))?;
        }
        self.cursor = token.map_or(ScanCursor::End, ScanCursor::After);
        Ok(())
    }

    /// Returns the error for a response that does not match the request.
    pub(super) fn invalid(&self, reason: &'static str) -> Error {
        let command = CommandRef::Scan {
            pattern: &self.pattern,
            token: None,
            values: false,
        };
        invalid(command, reason)
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
