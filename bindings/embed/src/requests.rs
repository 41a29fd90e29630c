//! Requests of a client to the store, as futures that own their arguments.
use crate::client::Client;
use crate::error::Error;
use crate::event_stream::{EventStream, Source, StreamEnd};
use crate::scan::{EntryScan, Scan};
use bytes::Bytes;
use statestore::{
    Capabilities, ConnectionState, Counters, DelOptions, DelOutcome, Entries, Entry, Expiry,
    GetOptions, MatchObservation, Observation, ObserveMatchingOptions, ObserveOptions, ScanOptions,
    SetOptions, SetOutcome, TransactOptions, Transaction, TransactionOutcome, UpdateOptions,
    UpdateOutcome, VdelOutcome,
};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Result of each of several writes, in their order.
pub type WriteResults<T> = Vec<Result<T, statestore::Error>>;

impl Client {
    /// Calls [`statestore::Client::get_with`].
    pub fn get(
        &self,
        key: Bytes,
        options: GetOptions,
    ) -> impl Future<Output = Result<Option<Entry>, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.get_with(key, &options).await?) }
    }

    /// Calls [`statestore::Client::get_many_with`].
    pub fn get_many(
        &self,
        keys: Vec<Bytes>,
        options: GetOptions,
    ) -> impl Future<Output = Result<Entries, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.get_many_with(&keys, &options).await?) }
    }

    /// Calls [`statestore::Client::exists_with`].
    pub fn exists(
        &self,
        key: Bytes,
        options: GetOptions,
    ) -> impl Future<Output = Result<bool, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.exists_with(key, &options).await?) }
    }

    /// Calls [`statestore::Client::ttl_with`].
    pub fn ttl(
        &self,
        key: Bytes,
        options: GetOptions,
    ) -> impl Future<Output = Result<Option<Expiry>, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.ttl_with(key, &options).await?) }
    }

    /// Calls [`statestore::Client::set_with`].
    pub fn set(
        &self,
        key: Bytes,
        value: Bytes,
        options: SetOptions,
    ) -> impl Future<Output = Result<SetOutcome, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.set_with(key, value, &options).await?) }
    }

    /// Calls [`statestore::Client::set_many_with`]. The outer error reports an unusable client.
    pub fn set_many(
        &self,
        values: Vec<(Bytes, Bytes)>,
        options: SetOptions,
    ) -> impl Future<Output = Result<WriteResults<SetOutcome>, Error>> + Send + 'static + use<>
    {
        let core = self.core().cloned();
        async move { Ok(core?.set_many_with(&values, &options).await) }
    }

    /// Calls [`statestore::Client::del_with`].
    pub fn del(
        &self,
        key: Bytes,
        options: DelOptions,
    ) -> impl Future<Output = Result<DelOutcome, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.del_with(key, &options).await?) }
    }

    /// Calls [`statestore::Client::del_many_with`]. The outer error reports an unusable client.
    pub fn del_many(
        &self,
        keys: Vec<Bytes>,
        options: DelOptions,
    ) -> impl Future<Output = Result<WriteResults<DelOutcome>, Error>> + Send + 'static + use<>
    {
        let core = self.core().cloned();
        async move { Ok(core?.del_many_with(&keys, &options).await) }
    }

    /// Calls [`statestore::Client::vdel_with`].
    pub fn vdel(
        &self,
        key: Bytes,
        value: Bytes,
        options: DelOptions,
    ) -> impl Future<Output = Result<VdelOutcome, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.vdel_with(key, value, &options).await?) }
    }

    /// Calls [`statestore::Client::capabilities`].
    pub fn capabilities(
        &self,
    ) -> impl Future<Output = Result<Capabilities, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.capabilities().await?) }
    }

    /// Calls [`statestore::Client::ping_within`], by default within the time-out of requests.
    pub fn ping(
        &self,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<Duration, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move {
            let core = core?;
            let timeout = timeout.unwrap_or(core.request_timeout());
            Ok(core.ping_within(timeout).await?)
        }
    }

    /// Calls [`statestore::Client::transact_with`].
    pub fn transact(
        &self,
        transaction: Transaction,
        options: TransactOptions,
    ) -> impl Future<Output = Result<TransactionOutcome, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.transact_with(&transaction, &options).await?) }
    }

    /// Calls [`statestore::Client::scan_with`]. Nothing is sent.
    ///
    /// # Errors
    /// The errors of [`core`](Self::core).
    pub fn scan(&self, pattern: &[u8], options: ScanOptions) -> Result<Scan, Error> {
        Ok(Scan::new(self.core()?.scan_with(pattern, options)))
    }

    /// Calls [`statestore::Client::scan_entries_with`]. Nothing is sent.
    ///
    /// # Errors
    /// The errors of [`core`](Self::core).
    pub fn scan_entries(&self, pattern: &[u8], options: ScanOptions) -> Result<EntryScan, Error> {
        Ok(Scan::new(self.core()?.scan_entries_with(pattern, options)))
    }

    /// Calls [`statestore::Client::update_async`]: `change` may take its time, as when a callback computes the new value.
    pub fn update<F, C>(
        &self,
        key: Bytes,
        options: UpdateOptions,
        change: C,
    ) -> impl Future<Output = Result<UpdateOutcome, Error>> + Send + 'static + use<F, C>
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
        C: FnMut(Option<Entry>) -> F + Send + 'static,
    {
        let core = self.core().cloned();
        async move { Ok(core?.update_async(key, &options, change).await?) }
    }

    /// Calls [`statestore::Client::touch_with`].
    pub fn touch(
        &self,
        key: Bytes,
        expires_in: Duration,
        options: UpdateOptions,
    ) -> impl Future<Output = Result<bool, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.touch_with(key, expires_in, &options).await?) }
    }

    /// Calls [`statestore::Client::incr_with`].
    pub fn incr(
        &self,
        key: Bytes,
        by: i64,
        options: UpdateOptions,
    ) -> impl Future<Output = Result<i64, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(core?.incr_with(key, by, &options).await?) }
    }

    /// Calls [`statestore::Client::observe_with`].
    pub fn observe(
        &self,
        key: Bytes,
        options: ObserveOptions,
    ) -> impl Future<Output = Result<EventStream<Observation>, Error>> + Send + 'static + use<>
    {
        let (core, client) = (self.core().cloned(), self.downgrade());
        async move {
            let observer = core?.observe_with(key, &options).await?;
            let end = StreamEnd::default();
            let source = ObservationSource {
                observer,
                end: end.clone(),
            };
            Ok(EventStream::new(client.upgrade()?, Box::new(source), end))
        }
    }

    /// Calls [`statestore::Client::observe_matching_with`].
    pub fn observe_matching(
        &self,
        pattern: Bytes,
        options: ObserveMatchingOptions,
    ) -> impl Future<Output = Result<EventStream<MatchObservation>, Error>> + Send + 'static + use<>
    {
        let (core, client) = (self.core().cloned(), self.downgrade());
        async move {
            let observer = core?.observe_matching_with(pattern, &options).await?;
            let end = StreamEnd::default();
            let source = MatchObservationSource {
                observer,
                end: end.clone(),
            };
            Ok(EventStream::new(client.upgrade()?, Box::new(source), end))
        }
    }

    /// Returns the states of the connection: first the present one, then each later one. A state that is replaced before it is
    /// taken is skipped. The last one is always delivered.
    ///
    /// # Errors
    /// The errors of [`submit`](Self::submit).
    pub fn states(&self) -> Result<EventStream<ConnectionState>, Error> {
        let mut states = self.core()?.state();
        states.mark_changed();
        let last = states.clone();
        let mut source =
            EventStream::task_source(self, "following the connection", async move |sender| {
                while states.changed().await.is_ok() {
                    let state = states.borrow_and_update().clone();
                    let is_last = state.is_closed();
                    if sender.send(state).await.is_err() || is_last {
                        return;
                    }
                }
            })?;
        let mut is_over = false;
        let end = StreamEnd::default();
        let ended = end.clone();
        let mut source = move |context: &mut Context<'_>| match source(context) {
            Poll::Ready(Some(state)) => {
                is_over = state.is_closed();
                Poll::Ready(Some(state))
            }
            // Closing the client ends the operation, which may have had no time to send the last state.
            Poll::Ready(None) if !std::mem::replace(&mut is_over, true) => {
                let state = last.borrow().clone();
                Poll::Ready(state.is_closed().then_some(state))
            }
            other => other,
        };
        let source = EventStream::peekable(Box::new(move |context| {
            let next = source(context);
            if let Poll::Ready(Some(ConnectionState::Closed { lost_reason, error })) = &next {
                ended.set(Some(*lost_reason), Some(error.clone().into()));
            }
            next
        }));
        Ok(EventStream::new(self.clone(), source, end))
    }

    /// Calls [`statestore::Client::counters`].
    ///
    /// # Errors
    /// The errors of [`core`](Self::core).
    pub fn counters(&self) -> Result<Counters, Error> {
        Ok(self.core()?.counters())
    }
}

/// The observations of a key.
struct ObservationSource {
    observer: statestore::Observer,
    end: StreamEnd,
}

impl Source<Observation> for ObservationSource {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Observation>> {
        // `next` keeps no state between two polls, so each poll can create it again.
        let next = pin!(self.observer.next()).poll(context);
        if let Poll::Ready(None) = next {
            self.end.set(
                self.observer.lost_reason(),
                self.observer.error().map(Error::from),
            );
        }
        next
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.observer.poll_ready(context)
    }
}

/// The events of the keys that match a pattern.
struct MatchObservationSource {
    observer: statestore::MatchObserver,
    end: StreamEnd,
}

impl Source<MatchObservation> for MatchObservationSource {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<MatchObservation>> {
        // `next` keeps no state between two polls, so each poll can create it again.
        let next = pin!(self.observer.next()).poll(context);
        if let Poll::Ready(None) = next {
            self.end.set(
                self.observer.lost_reason(),
                self.observer.error().map(Error::from),
            );
        }
        next
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.observer.poll_ready(context)
    }
}
