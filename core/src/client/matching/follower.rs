//! The task of an observer of a pattern: it starts the watch, and reads the keys at the beginning and after each gap.
use super::key_watches::KeyWatches;
use crate::client::call::Call;
use crate::client::capabilities::{is_unsupported_request, unsupported};
use crate::client::patterns::{FoundEntry, Gap, MatchState};
use crate::client::shared::Shared;
use crate::client::watches::is_transient;
use crate::client::{Client, Deadline, Entry, GetOptions, ScanOptions};
use crate::error::{Error, ErrorKind};
use crate::request::OutgoingRequest;
use bytes::Bytes;
use statestore_protocol::{Capabilities, CommandRef, Reply};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Delay before a failed request is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delay before the keys are read because of a notification in doubt, which may be forged.
const DOUBT_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of keys whose watches are started at the same time, on a store that does not watch patterns.
const MAX_STARTS: usize = 64;

/// The task of one observer.
#[derive(Debug)]
pub(super) struct Follower {
    client: Client,
    state: Arc<MatchState>,
    /// Time limit for the start of the watch.
    timeout: Duration,
    refresh: Option<Duration>,
    /// Watches of single keys; `None` if the store watches the pattern.
    keys: Option<KeyWatches>,
    has_started: bool,
}

/// Next work of a task that has read all keys.
enum Work {
    /// All keys must be read again.
    Read(Gap),
    /// New keys must be looked for.
    Refresh,
}

impl Follower {
    pub(super) fn new(
        client: Client,
        state: Arc<MatchState>,
        timeout: Duration,
        refresh: Option<Duration>,
    ) -> Self {
        Self {
            client,
            state,
            timeout,
            refresh,
            keys: None,
            has_started: false,
        }
    }

    /// Runs until the observer is dropped or has ended. `started` gets the result of the first start.
    pub(super) async fn run(mut self, started: oneshot::Sender<Result<(), Error>>) {
        let state = self.state.clone();
        let shared = self.client.shared().clone();
        tokio::select! {
            // In a fixed order, so that simulations are reproducible.
            biased;
            () = state.abandoned() => {}
            () = Box::pin(self.follow(started)) => {}
        }
        // A client without other users closes now.
        drop(self);
        stop(&shared, &state).await;
    }

    async fn follow(&mut self, started: oneshot::Sender<Result<(), Error>>) {
        let result = self.start().await;
        if let Err(error) = &result {
            self.state.end(error.clone());
        }
        // The receiver is gone if the caller gave up.
        if started.send(result).is_err() {
            return;
        }
        while !self.state.is_ended() {
            match self.follow_until_gap().await {
                Ok(()) => {}
                // The client ends the observer, with its reason.
                Err(error) if error.kind() == ErrorKind::Closed => self.state.ended().await,
                Err(error) if is_transient(&error) => {
                    self.state.open_gap();
                    self.sleep(RETRY_DELAY).await;
                }
                Err(error) => self.state.end(error),
            }
        }
    }

    /// Starts the watch on the present connection.
    async fn start(&mut self) -> Result<(), Error> {
        self.keys = None;
        // The client may still know the capabilities of the former connection.
        self.state.connected().await;
        let connection = self.state.connection();
        let pattern = self.state.pattern().clone();
        let command = CommandRef::WatchPattern { pattern: &pattern };
        let has_fallback = self.refresh.is_some();
        let permits = |store: &Capabilities| {
            if store.observe_matching || has_fallback {
                Ok(store.observe_matching)
            } else {
                let reason = "the store does not watch patterns, and `refresh` is off";
                Err(unsupported(command, reason))
            }
        };
        let this = &*self;
        let watch = |remaining: Duration, watches_patterns: bool| async move {
            if watches_patterns {
                this.send_watch(command, remaining).await?;
            }
            Ok::<_, Error>(watches_patterns)
        };
        let deadline = Deadline::after(self.timeout);
        let watches_patterns = self
            .client
            .call_if_supported(&deadline, true, command, permits, watch)
            .await?;
        if !watches_patterns {
            if !self.has_started {
                self.check_scan(&deadline).await?;
            }
            self.keys = Some(KeyWatches::default());
        }
        self.has_started = true;
        self.state.set_live(connection, watches_patterns);
        Ok(())
    }

    async fn send_watch(&self, command: CommandRef<'_>, timeout: Duration) -> Result<(), Error> {
        let _order_guard = self.state.order.lock().await;
        self.state.set_watched();
        let request = OutgoingRequest {
            ignores_fail_fast: true,
            ..OutgoingRequest::new(command)
        };
        let mut call = Call::new(self.client.shared(), request, Some(timeout));
        let response = (&mut call).await?;
        match response.reply {
            Reply::Ok => Ok(()),
            _ => Err(call.invalid("the response is not one to KEYNOTIFY")),
        }
    }

    /// Checks that the store supports SCAN, so that the caller gets the error.
    async fn check_scan(&self, deadline: &Deadline) -> Result<(), Error> {
        let options = ScanOptions::new().timeout(deadline.remaining());
        let mut scan = self.client.scan_with(self.state.pattern(), options);
        let page = scan.next_page().await;
        page.map(drop).map_err(|error| self.scan_error(error))
    }

    /// Converts the error of a scan that the store does not support.
    fn scan_error(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::UnknownCommand && is_unsupported_request(&error) {
            let pattern = self.state.pattern();
            return unsupported(
                CommandRef::WatchPattern { pattern },
                "the store has no SCAN",
            );
        }
        error
    }

    /// Reads all keys and follows their changes, until they must be read again.
    async fn follow_until_gap(&mut self) -> Result<(), Error> {
        if !self.state.is_live() {
            self.start().await?;
        }
        self.state.room().await;
        let Some(scan) = self.state.begin_scan() else {
            return Ok(());
        };
        let is_complete = if self.keys.is_some() {
            self.watch_all_keys(scan, false).await?
        } else {
            self.read_entries(scan).await?
        };
        if !is_complete {
            return Ok(());
        }
        loop {
            match self.next_work().await? {
                Work::Read(gap) => {
                    if gap == Gap::Doubt {
                        self.sleep(DOUBT_DELAY).await;
                    }
                    return Ok(());
                }
                Work::Refresh => {
                    let Some(scan) = self.state.begin_refresh() else {
                        continue;
                    };
                    match self.watch_all_keys(scan, true).await {
                        Ok(_) => {}
                        // The known keys are still watched.
                        Err(error) if is_transient(&error) => self.state.abort_scan(),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    /// Reads all entries. Returns whether no gap interrupted that.
    async fn read_entries(&self, scan: u64) -> Result<bool, Error> {
        let options = ScanOptions::new().fallback(true);
        let pattern = self.state.pattern();
        let mut entries = self.client.scan_entries_with(pattern, options);
        loop {
            self.state.room().await;
            match entries.next_page().await {
                Ok(Some(page)) => {
                    let page = page.into_iter().map(found_entry);
                    if !self.state.merge_entries(scan, page) {
                        return Ok(false);
                    }
                }
                Ok(None) => return Ok(self.state.end_scan(scan, false)),
                Err(error) => {
                    if !self.retries_page(scan, error).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Watches and reads all keys that are not watched yet. Returns whether no gap interrupted that. Unless this `is_refresh`,
    /// all watches are started again.
    async fn watch_all_keys(&mut self, scan: u64, is_refresh: bool) -> Result<bool, Error> {
        if !is_refresh && let Some(keys) = &mut self.keys {
            keys.clear();
        }
        let mut pages = self.client.scan(self.state.pattern());
        loop {
            match pages.next_page().await {
                Ok(Some(page)) => {
                    for keys in page.chunks(MAX_STARTS) {
                        self.state.room().await;
                        if !self.watch_keys(scan, keys).await? {
                            return Ok(false);
                        }
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    if !self.retries_page(scan, error).await? {
                        return Ok(false);
                    }
                }
            }
        }
        let is_complete = self.state.end_scan(scan, is_refresh);
        if let Some(keys) = &mut self.keys {
            keys.retain_existing(&self.state);
        }
        Ok(is_complete)
    }

    /// Watches and reads some keys. Returns whether no gap interrupted that.
    async fn watch_keys(&mut self, scan: u64, keys: &[Bytes]) -> Result<bool, Error> {
        let Some(watches) = &mut self.keys else {
            return Ok(false);
        };
        let mut new = Vec::new();
        for key in keys {
            if watches.contains(key) {
                self.state.mark_found(key);
            } else {
                new.push(key.clone());
            }
        }
        if !self.state.reserve_keys(watches.len() + new.len()) {
            return Ok(false);
        }
        let timeout = self.client.request_timeout();
        watches.add(&self.client, &new, timeout).await?;
        let entries = self.client.get_many_with(&new, &GetOptions::new()).await?;
        let found = new.into_iter().zip(entries);
        let found = found.filter_map(|(key, entry)| Some(found_entry((key, entry?))));
        let goes_on = self.state.merge_entries(scan, found);
        watches.deliver(&self.state)?;
        Ok(goes_on)
    }

    /// Waits before the request for a page is repeated. Returns whether the scan may continue.
    ///
    /// # Errors
    /// Returns the error if the request would fail again.
    async fn retries_page(&self, scan: u64, error: Error) -> Result<bool, Error> {
        let is_closed = error.kind() == ErrorKind::Closed;
        if !is_closed && !self.state.is_scanning(scan) {
            // The position of the scan may belong to another server.
            return Ok(false);
        }
        if !is_transient(&error) {
            return Err(self.scan_error(error));
        }
        self.sleep(RETRY_DELAY).await;
        Ok(self.state.is_scanning(scan))
    }

    /// Waits until the keys must be read again or new ones looked for, and delivers the observations of single keys.
    async fn next_work(&self) -> Result<Work, Error> {
        let (Some(keys), Some(interval)) = (&self.keys, self.refresh) else {
            return Ok(Work::Read(self.state.gap().await));
        };
        let mut refresh = pin!(self.client.shared().runtime.sleep(interval));
        loop {
            tokio::select! {
                biased;
                gap = self.state.gap() => return Ok(Work::Read(gap)),
                () = keys.ready() => keys.deliver(&self.state)?,
                () = &mut refresh => return Ok(Work::Refresh),
            }
        }
    }

    async fn sleep(&self, time: Duration) {
        self.client.shared().runtime.sleep(time).await;
    }
}

fn found_entry((key, entry): (Bytes, Entry)) -> FoundEntry {
    let Entry { value, version, .. } = entry;
    FoundEntry {
        key,
        value,
        version,
    }
}

/// Ends the watch of the pattern, unless another observer needs it, and forgets the observer.
async fn stop(shared: &Shared, state: &Arc<MatchState>) {
    {
        let _order_guard = state.order.lock().await;
        if state.is_watched() && !shared.patterns.is_shared(state) {
            let pattern = state.pattern();
            let request = OutgoingRequest {
                ignores_fail_fast: true,
                ..OutgoingRequest::new(CommandRef::UnwatchPattern { pattern })
            };
            // After an error the watch may continue at the store. That is harmless: its notifications are ignored.
            let _ = Call::new(shared, request, None).await;
        }
    }
    shared.patterns.remove(state);
}
