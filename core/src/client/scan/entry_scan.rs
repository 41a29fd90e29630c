//! Scans that return values.
use super::ScanOptions;
use super::pager::ScanPager;
use crate::client::capabilities::unsupported;
use crate::client::{Client, Deadline, Entry, Expiry, GetOptions, detach, key_action};
use crate::error::Error;
use crate::{AsBytes, TransactionRecord};
use bytes::Bytes;
use statestore_protocol::{Capabilities, Hlc, PageEntry, Reply};
use std::collections::VecDeque;
use std::time::Duration;

/// The entries whose keys match a pattern, page by page. No request is sent before the first page is requested.
///
/// Entries that exist during the whole scan are found. A key that is set or deleted meanwhile may be found or not. Each entry is
/// from a moment between the request for its page and the response.
#[derive(Debug)]
pub struct EntryScan {
    pager: ScanPager,
    options: ScanOptions,
    entries: VecDeque<(Bytes, Entry)>,
}

impl Client {
    /// Scans for keys with their values, versions and [remaining times](Entry::expires_in). The pattern is that of
    /// [`scan`](Self::scan).
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// let mut settings = client.scan_entries("line1/*");
    /// while let Some((key, entry)) = settings.next().await? {
    ///     println!("{key:?} is {:?}", entry.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Stores without [`Capabilities::scan_values`] return [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), unless
    /// you set [`ScanOptions::fallback`].
    pub fn scan_entries(&self, pattern: impl AsBytes) -> EntryScan {
        self.scan_entries_with(pattern, ScanOptions::default())
    }

    /// Scans for keys with their values, with options.
    pub fn scan_entries_with(&self, pattern: impl AsBytes, options: ScanOptions) -> EntryScan {
        EntryScan {
            pager: ScanPager::new(self, pattern.as_ref()),
            options,
            entries: VecDeque::new(),
        }
    }
}

impl EntryScan {
    /// Returns the next page, or `None` after the last one. A page may be empty although others follow. After an error, the
    /// next call requests the same page again.
    ///
    /// Dropping the future loses no entries: the next call requests the same page again.
    ///
    /// # Errors
    /// Returns the error of the request, and those of [`Scan::next_page`](super::Scan::next_page). If the value of a key belongs
    /// to an unfinished transaction of `statestore-intents`, the whole page fails.
    pub async fn next_page(&mut self) -> Result<Option<Vec<(Bytes, Entry)>>, Error> {
        if !self.entries.is_empty() {
            return Ok(Some(std::mem::take(&mut self.entries).into()));
        }
        Box::pin(self.read_page()).await
    }

    /// Returns the next key and its entry, or `None` after the last one.
    ///
    /// Dropping the future loses no entries.
    pub async fn next(&mut self) -> Result<Option<(Bytes, Entry)>, Error> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Ok(Some(entry));
            }
            match self.next_page().await? {
                Some(page) => self.entries = page.into(),
                None => return Ok(None),
            }
        }
    }

    async fn read_page(&mut self) -> Result<Option<Vec<(Bytes, Entry)>>, Error> {
        let pager = &self.pager;
        let Some(command) = pager.command(true) else {
            return Ok(None);
        };
        let client = pager.client().clone();
        let timeout = self.options.timeout;
        let deadline = Deadline::after(timeout.unwrap_or(client.request_timeout()));
        let has_fallback = self.options.fallback;
        let permits = |store: &Capabilities| {
            if store.scan_values || has_fallback {
                Ok(store.scan_values)
            } else {
                Err(unsupported(
                    command,
                    "the store returns no values of a scan",
                ))
            }
        };
        let request = |remaining: Duration, values: bool| async move {
            let reply = pager.request(values, Some(remaining)).await?;
            Ok::<_, Error>((values, reply))
        };
        let (has_values, reply) = client
            .call_if_supported(&deadline, true, command, permits, request)
            .await?;
        let (entries, token) = match (has_values, reply) {
            (true, Some(Reply::EntryPage { entries, token })) => {
                (read_entries(&client, entries)?, token)
            }
            // A page without entries has the same form with and without values.
            (true, Some(Reply::Page { keys, token })) if keys.is_empty() => (Vec::new(), token),
            (false, Some(Reply::Page { keys, token })) => {
                let keys: Vec<Bytes> = keys.into_iter().map(detach).collect();
                let options = GetOptions::new().timeout(timeout);
                let entries = client.get_many_with(&keys, &options).await?;
                let found = keys.into_iter().zip(entries);
                let found = found.filter_map(|(key, entry)| Some((key, entry?)));
                (found.collect(), token)
            }
            _ => return Err(pager.invalid("the response is not one to SCAN")),
        };
        self.pager.advance(entries.len(), token)?;
        Ok(Some(entries))
    }
}

/// Interprets the entries of a page.
fn read_entries(client: &Client, entries: Vec<PageEntry>) -> Result<Vec<(Bytes, Entry)>, Error> {
    if let Some(newest) = entries.iter().map(|entry| entry.version).max() {
        client.shared().merge(&Hlc::from(newest));
    }
    let is_alone = entries.len() == 1;
    let entries = entries.into_iter().map(|entry| read_entry(entry, is_alone));
    entries.collect()
}

/// Converts an entry of a page. `is_alone` is whether the page has no other one.
fn read_entry(found: PageEntry, is_alone: bool) -> Result<(Bytes, Entry), Error> {
    let version = Hlc::from(found.version);
    TransactionRecord::reject(&found.value, &version, || key_action("SCAN", &found.key))?;
    // A value of several would keep the buffer of all of them alive.
    let value = if is_alone {
        detach(found.value)
    } else {
        Bytes::copy_from_slice(&found.value)
    };
    let mut entry = Entry::new(value, version);
    let after = |ms| Expiry::After(Duration::from_millis(ms));
    entry.expires_in = found.expires_in_ms.map_or(Expiry::Never, after);
    Ok((detach(found.key), entry))
}
