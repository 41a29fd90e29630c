//! Several keys read in one call, with MGET or with single GETs.
use super::action::action;
use super::batch::{MaybeDone, join_all};
use super::call::{Call, invalid_argument};
use super::{Client, Deadline, Entries, Entry, GetOptions, detach, get};
use crate::error::Error;
use crate::request::OutgoingRequest;
use crate::{AsBytes, TransactionRecord};
use bytes::{Bytes, BytesMut};
use statestore_protocol::{Capabilities, CommandRef, Hlc, Reply, Version, resp};
use std::time::Duration;

/// Maximum size of all values in a response to MGET, in bytes. A single larger value is in a response by itself.
const MAX_RESPONSE_VALUES: usize = 1024 * 1024;
/// Upper bound of the size of an entry in a response, besides its value.
const ENTRY_OVERHEAD: usize = 128;
/// Upper bound of the size of a request or response, besides its payload and the client id.
const PACKET_OVERHEAD: usize = 1024;
/// Upper bound of the number of times that a packet contains the client id.
const CLIENT_IDS: usize = 3;

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
    /// capabilities counts towards the first one.
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

    /// Reads the keys with as many MGETs as necessary. `remaining` is the time limit of the first one.
    async fn send_get_many<K: AsBytes>(
        &self,
        keys: &[K],
        max_keys: usize,
        options: &GetOptions,
        remaining: Duration,
    ) -> Result<Entries, Error> {
        let keys = shared_keys(keys);
        let mut entries = self
            .send_one_get_many(&keys, max_keys, options, Some(remaining))
            .await?;
        let is_snapshot = entries.len() == keys.len();
        let mut answered = entries.len();
        while entries.len() < keys.len() {
            // Keys that large values push into the next response are sent again, so their number is limited.
            let count = max_keys.min(answered.saturating_mul(2));
            let more = self
                .send_one_get_many(&keys[entries.len()..], count, options, options.timeout)
                .await?;
            answered = more.len();
            entries.extend(more);
        }
        Ok(Entries::new(entries, is_snapshot))
    }

    /// Sends an MGET of the first keys, `max_keys` at most. Returns the entries of one or more of them.
    async fn send_one_get_many(
        &self,
        keys: &[Bytes],
        max_keys: usize,
        options: &GetOptions,
        timeout: Option<Duration>,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let keys = &keys[..self.keys_in_request(keys, max_keys)];
        let request = OutgoingRequest {
            may_wait: !options.at_once,
            ..OutgoingRequest::new(CommandRef::GetMany { keys })
        };
        let mut mget = Call::new(self.shared(), request, timeout);
        let Reply::Entries { entries, omitted } = (&mut mget).await?.reply else {
            return Err(mget.invalid("the response is not one to MGET"));
        };
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

    /// Returns how many of the keys, `max_keys` at most, fit into one request to this broker; at least 1.
    fn keys_in_request(&self, keys: &[Bytes], max_keys: usize) -> usize {
        let mut left = {
            let state = self.shared().lock_state();
            let session = state.exchange.session();
            (session.peer_limits().max_packet_bytes as usize)
                .saturating_sub(PACKET_OVERHEAD + CLIENT_IDS * session.client_id().len())
        };
        let fitting = keys.iter().take(max_keys).take_while(|key| {
            let rest = left.checked_sub(resp::bulk_len(key.len()));
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        fitting.count().max(1)
    }

    async fn send_gets<K: AsBytes>(
        &self,
        keys: &[K],
        options: &GetOptions,
    ) -> Result<Entries, Error> {
        let gets = keys.iter().map(|key| {
            let get = self.shared().start_get(key.as_ref(), options)?;
            Ok(MaybeDone::Running(get))
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
