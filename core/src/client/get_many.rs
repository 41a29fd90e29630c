//! Several keys read in one call, with MGET or with single GETs.
use super::action::action;
use super::batch::{MaybeDone, join_all};
use super::call::{Call, Response, invalid_argument};
use super::{Client, Deadline, Entries, Entry, GetOptions, detach, get};
use crate::error::Error;
use crate::request::OutgoingRequest;
use crate::{AsBytes, TransactionRecord};
use bytes::{Bytes, BytesMut};
use statestore_protocol::{Capabilities, CommandRef, Hlc, Reply, Version, resp};
use std::ops::Range;
use std::time::Duration;

/// Maximum size of all values in a response to MGET, in bytes. A single larger value is in a response by itself.
const MAX_RESPONSE_VALUES: usize = 1024 * 1024;
/// Upper bound of the size of an entry in a response, besides its value.
const ENTRY_OVERHEAD: usize = 128;
/// Upper bound of the size of a request or response, besides its payload and the client id.
const PACKET_OVERHEAD: usize = 1024;
/// Upper bound of the number of times that a packet contains the client id.
const CLIENT_IDS: usize = 3;

/// Consecutive keys of a call whose entries are not known yet.
struct UnreadKeys {
    range: Range<usize>,
    /// Maximum number of these keys in one request.
    max_keys: usize,
}

impl UnreadKeys {
    /// Splits the keys into those of single requests: `max_bytes` of keys at most, but one key at least.
    fn split(&self, keys: &[Bytes], max_bytes: usize) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let (mut start, mut bytes) = (self.range.start, 0_usize);
        for index in self.range.clone() {
            let len = resp::bulk_len(keys[index].len());
            let is_full = index - start == self.max_keys || bytes.saturating_add(len) > max_bytes;
            if index > start && is_full {
                parts.push(start..index);
                (start, bytes) = (index, 0);
            }
            bytes = bytes.saturating_add(len);
        }
        parts.push(start..self.range.end);
        parts
    }
}

/// The requests that read several keys from a store.
enum ReadPlan {
    /// MGETs with this many keys at most.
    GetMany { max_keys: usize },
    /// A GET with these options for each key.
    Gets(GetOptions),
}

impl Client {
    /// Reads several keys. Returns their entries in the order of the keys, with `None` for each absent key.
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// let pumps = client.get_many(["pump/1", "pump/2"]).await?;
    /// assert_eq!(pumps.len(), 2);
    /// if !pumps.is_snapshot() {
    ///     println!("the pumps may have changed in between");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Stores with [`Capabilities::max_get_keys`] return all keys in one response, which is a
    /// [snapshot](Entries::is_snapshot). Further requests follow if the keys do not fit into one request, or their values into
    /// one response (1 MiB). The result is **not a snapshot** then.
    ///
    /// For other stores, and for [`GetOptions::remaining`] and [`GetOptions::eventual`], the client sends single GETs without
    /// waiting for each other. The result is **not a snapshot**: a write may happen between any two of them.
    ///
    /// # Errors
    /// Returns the first error of any request and cancels the others. A store may reject all keys because of one of them.
    pub async fn get_many<K: AsBytes>(&self, keys: impl AsRef<[K]>) -> Result<Entries, Error> {
        self.get_many_with(keys, &GetOptions::default()).await
    }

    /// Like [`get_many`](Self::get_many), with options. The time-out of each request starts when it is sent. The query of the
    /// capabilities counts towards the first ones.
    pub async fn get_many_with<K: AsBytes>(
        &self,
        keys: impl AsRef<[K]>,
        options: &GetOptions,
    ) -> Result<Entries, Error> {
        Box::pin(self.read_many(keys.as_ref(), options)).await
    }

    async fn read_many<K: AsBytes>(
        &self,
        keys: &[K],
        options: &GetOptions,
    ) -> Result<Entries, Error> {
        let Some(first) = keys.first() else {
            return Ok(Entries::new(Vec::new(), true));
        };
        // Invalid arguments are rejected before any request is sent.
        if keys.iter().any(|key| key.as_ref().is_empty()) {
            return Err(invalid_argument(options.command(b""), "the key is empty"));
        }
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let permits = |store: &Capabilities| self.read_plan(first.as_ref(), options, store);
        let read = |remaining, plan: ReadPlan| async move {
            match plan {
                ReadPlan::GetMany { max_keys } => {
                    self.send_get_many(keys, max_keys, options, remaining).await
                }
                ReadPlan::Gets(permitted) => self.send_gets(keys, &permitted).await,
            }
        };
        self.call_if_supported(
            &deadline,
            !options.at_once,
            options.command(first.as_ref()),
            permits,
            read,
        )
        .await
    }

    /// Returns the requests that this store supports, or an error if it lacks a required option.
    fn read_plan(
        &self,
        first: &[u8],
        options: &GetOptions,
        store: &Capabilities,
    ) -> Result<ReadPlan, Error> {
        let max_keys = match store.max_get_keys {
            Some(limit) if !options.needs_extensions() => usize::try_from(limit)
                .unwrap_or(usize::MAX)
                .min(self.max_received_entries()),
            _ => 0,
        };
        if max_keys > 0 {
            return Ok(ReadPlan::GetMany { max_keys });
        }
        options.supported(first, store).map(ReadPlan::Gets)
    }

    /// Returns the number of entries in the largest response to MGET that fits into the largest packet of the settings.
    fn max_received_entries(&self) -> usize {
        let limit = self.shared().settings.max_packet_bytes as usize;
        limit.saturating_sub(MAX_RESPONSE_VALUES + PACKET_OVERHEAD) / ENTRY_OVERHEAD
    }

    /// Reads the keys with as many MGETs as necessary. `remaining` is the time limit of the first ones.
    async fn send_get_many<K: AsBytes>(
        &self,
        keys: &[K],
        max_keys: usize,
        options: &GetOptions,
        remaining: Duration,
    ) -> Result<Entries, Error> {
        let keys = shared_keys(keys);
        let mut entries = vec![None; keys.len()];
        let mut is_snapshot = true;
        let mut timeout = Some(remaining);
        let mut unread = vec![UnreadKeys {
            range: 0..keys.len(),
            max_keys,
        }];
        while !unread.is_empty() {
            let max_bytes = self.max_request_bytes();
            let parts = unread.iter().flat_map(|part| part.split(&keys, max_bytes));
            let parts: Vec<_> = parts.collect();
            let requests = parts.iter().map(|part| {
                let keys = &keys[part.clone()];
                let mget = self.start_get_many(keys, options.at_once, timeout);
                Ok::<_, Error>(MaybeDone::Running(mget))
            });
            let responses = join_all(self.shared(), requests, |mget, response| {
                self.read_entries(mget, response?, options)
            });
            let responses = responses.await?;
            unread.clear();
            is_snapshot &= parts.len() == 1;
            for (part, found) in parts.into_iter().zip(responses) {
                let answered = found.len();
                let rest = part.start + answered..part.end;
                for (slot, entry) in entries[part].iter_mut().zip(found) {
                    *slot = entry;
                }
                if !rest.is_empty() {
                    is_snapshot = false;
                    // Keys that large values push into a later response are sent again, so their number is limited.
                    unread.push(UnreadKeys {
                        range: rest,
                        max_keys: max_keys.min(answered.saturating_mul(2)),
                    });
                }
            }
            timeout = options.timeout;
        }
        Ok(Entries::new(entries, is_snapshot))
    }

    fn start_get_many<'a>(
        &'a self,
        keys: &'a [Bytes],
        at_once: bool,
        timeout: Option<Duration>,
    ) -> Call<'a> {
        let request = OutgoingRequest {
            may_wait: !at_once,
            ..OutgoingRequest::new(CommandRef::GetMany { keys })
        };
        Call::new(self.shared(), request, timeout)
    }

    /// Interprets the response to an MGET. Returns the entries of one or more of its keys, beginning with the first.
    fn read_entries(
        &self,
        mget: &Call<'_>,
        response: Response,
        options: &GetOptions,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let Reply::Entries { entries, omitted } = response.reply else {
            return Err(mget.invalid("the response is not one to MGET"));
        };
        let keys = mget.keys();
        let answered = entries.len() as u64;
        if entries.is_empty() || answered.checked_add(omitted) != Some(keys.len() as u64) {
            let reason = format!(
                "the response has {answered} entries and omits {omitted} for {} keys",
                keys.len()
            );
            return Err(mget.invalid(reason));
        }
        let newest = entries.iter().flatten().map(|(_, version)| *version).max();
        if let Some(newest) = newest {
            self.shared().merge(&Hlc::from(newest));
        }
        let is_alone = entries.len() == 1;
        let entries = keys.iter().zip(entries).map(|(key, found)| match found {
            Some((value, version)) => entry(options, key, value, version, is_alone).map(Some),
            None => Ok(None),
        });
        entries.collect()
    }

    /// Returns the maximum size of the keys in one request to this broker, in bytes.
    fn max_request_bytes(&self) -> usize {
        let state = self.shared().lock_state();
        let session = state.exchange.session();
        (session.peer_limits().max_packet_bytes as usize)
            .saturating_sub(PACKET_OVERHEAD + CLIENT_IDS * session.client_id().len())
    }

    async fn send_gets<K: AsBytes>(
        &self,
        keys: &[K],
        options: &GetOptions,
    ) -> Result<Entries, Error> {
        let gets = keys.iter().map(|key| {
            let get = self.shared().start_get(key.as_ref(), options)?;
            Ok::<_, Error>(MaybeDone::Running(get))
        });
        let entries = join_all(self.shared(), gets, |get, response| {
            get::entry(get, response?)
        });
        Ok(Entries::new(entries.await?, false))
    }
}

/// Copies the keys into one buffer.
fn shared_keys<K: AsBytes>(keys: &[K]) -> Vec<Bytes> {
    let len = keys.iter().map(|key| key.as_ref().len()).sum();
    let mut buffer = BytesMut::with_capacity(len);
    let keys = keys.iter().map(|key| {
        buffer.extend_from_slice(key.as_ref());
        buffer.split().freeze()
    });
    keys.collect()
}

/// Converts an entry of a response to MGET. `is_alone` is whether the response has no other one.
fn entry(
    options: &GetOptions,
    key: &[u8],
    value: Bytes,
    version: Version,
    is_alone: bool,
) -> Result<Entry, Error> {
    let version = Hlc::from(version);
    TransactionRecord::reject(&value, &version, || action(options.command(key)))?;
    // A value of several would keep the buffer of all of them alive.
    let value = if is_alone {
        detach(value)
    } else {
        Bytes::copy_from_slice(&value)
    };
    Ok(Entry::new(value, version))
}
