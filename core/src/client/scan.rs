//! SCAN.
use super::call::Call;
use super::{Client, detached};
use crate::error::Error;
use crate::protocol::{CommandRef, Reply};
use crate::request::Outgoing;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;

/// Options of [`Client::scan_with`].
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// How long the request for each page may take;
    /// [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
}

/// The keys that match a pattern, page by page. Nothing is requested before the first page is asked for.
///
/// Keys that are there during the whole scan are found; one that is set or deleted meanwhile may be found or not. A store
/// that does not know SCAN answers with [`ErrorKind::UnknownCommand`](crate::ErrorKind::UnknownCommand).
#[derive(Debug)]
pub struct Scan {
    client: Client,
    pattern: Bytes,
    options: ScanOptions,
    next: Next,
    keys: VecDeque<Bytes>,
}

#[derive(Debug)]
enum Next {
    First,
    After(Bytes),
    End,
}

impl Client {
    /// Looks for keys. The pattern is a glob: `*`, `?`, `[ab]`, `[0-9]`, `[!x]`, and `[*]` for a star.
    pub fn scan(&self, pattern: impl AsRef<[u8]>) -> Scan {
        self.scan_with(pattern, ScanOptions::default())
    }

    /// Looks for keys.
    pub fn scan_with(&self, pattern: impl AsRef<[u8]>, options: ScanOptions) -> Scan {
        Scan {
            client: self.clone(),
            pattern: Bytes::copy_from_slice(pattern.as_ref()),
            options,
            next: Next::First,
            keys: VecDeque::new(),
        }
    }
}

impl Scan {
    /// The next page; it may be empty although others follow. `None` after the last one. After an error the same page
    /// can be asked for again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        if !self.keys.is_empty() {
            return Ok(Some(std::mem::take(&mut self.keys).into()));
        }
        let token = match &self.next {
            Next::First => None,
            Next::After(token) => Some(token.clone()),
            Next::End => return Ok(None),
        };
        let token = token.as_deref();
        let command = CommandRef::Scan {
            pattern: &self.pattern,
            token,
        };
        let request = Outgoing::new(command);
        let mut page = Call::new(self.client.shared(), request, self.options.timeout);
        let response = (&mut page).await?;
        let Reply::Page { keys, token: after } = response.reply else {
            return Err(page.invalid("the response is not one to SCAN"));
        };
        if after.is_some() && after.as_deref() == token {
            return Err(page.invalid("the page points to itself as the next one"));
        }
        drop(page);
        self.next = after.map_or(Next::End, |token| Next::After(detached(token)));
        Ok(Some(keys.into_iter().map(detached).collect()))
    }

    /// The next key; `None` after the last one.
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
