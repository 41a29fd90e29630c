//! Mirrors: local copies of all entries whose keys match a pattern.
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::event_stream::{EventStream, Source, StreamEnd};
use crate::executor::Dependent;
use crate::process::ProcessBound;
use bytes::Bytes;
use statestore::{
    Entry, LostReason, MatchObservation, Mirror as CoreMirror, MirrorChanges, MirrorOptions,
    Outcome,
};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A local copy of all entries whose keys match a pattern; see [`statestore::Mirror`].
///
/// Reads send no request, and are possible after the end, too.
#[derive(Debug)]
pub struct Mirror {
    inner: ProcessBound<Arc<Inner>>,
    client: Client,
}

#[derive(Debug)]
struct Inner {
    core: CoreMirror,
}

impl Dependent for Inner {
    /// Ends the mirror.
    fn runtime_failed(&self) {
        self.core.close();
    }
}

impl Client {
    /// Calls [`statestore::Client::mirror_with`].
    pub fn mirror(
        &self,
        pattern: Bytes,
        options: MirrorOptions,
    ) -> impl Future<Output = Result<Mirror, Error>> + Send + 'static + use<> {
        let (core, client) = (self.core().cloned(), self.downgrade());
        async move {
            let core = core?.mirror_with(pattern, &options).await?;
            Ok(Mirror::new(core, client.upgrade()?))
        }
    }
}

impl Mirror {
    fn new(core: CoreMirror, client: Client) -> Self {
        let inner = Arc::new(Inner { core });
        if let Ok(client) = client.inner() {
            let dependent = Arc::downgrade(&inner);
            client.context.executor.notify_of_failure(dependent);
        }
        Self {
            inner: ProcessBound::new(inner),
            client,
        }
    }

    /// Calls [`statestore::Mirror::get`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        Ok(self.core()?.get(key))
    }

    /// Calls [`statestore::Mirror::len`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn count(&self) -> Result<usize, Error> {
        Ok(self.core()?.len())
    }

    /// Returns all entries of one moment, in any order.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn snapshot(&self) -> Result<Vec<(Bytes, Entry)>, Error> {
        let entries = self.core()?.snapshot();
        let copies = entries
            .iter()
            .map(|(key, entry)| (key.clone(), entry.clone()));
        Ok(copies.collect())
    }

    /// Calls [`statestore::Mirror::synced`].
    pub fn synced(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let core = self.awaitable_core();
        async move { Ok(core?.synced().await?) }
    }

    /// Returns the mirror of the client. Fails if the mirror cannot change any more, and has not noticed its end yet.
    fn awaitable_core(&self) -> Result<CoreMirror, Error> {
        let core = self.core()?;
        if core.lost_reason().is_none() {
            self.client.core()?;
        }
        Ok(core.clone())
    }

    /// Returns for how long the mirror may have differed from the store, or `None` while it follows every change; see
    /// [`statestore::Mirror::stale_since`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn stale_for(&self) -> Result<Option<Duration>, Error> {
        if let Some(since) = self.core()?.stale_since() {
            return Ok(Some(since.elapsed()));
        }
        let is_ended = self.client.lost_reason()?.is_some();
        Ok(is_ended.then_some(Duration::ZERO))
    }

    /// Returns every change from now on.
    ///
    /// The stream keeps the mirror. It ends with [`ErrorKind::TooLarge`] if too many changes wait.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn changes(&self) -> Result<EventStream<MatchObservation>, Error> {
        let mirror = self.core()?.clone();
        let end = StreamEnd::default();
        let source = ChangeSource {
            changes: mirror.changes(),
            mirror,
            end: end.clone(),
        };
        Ok(EventStream::new(self.client.clone(), Box::new(source), end))
    }

    /// Returns why the mirror ended, or `None` while it continues.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn lost_reason(&self) -> Result<Option<LostReason>, Error> {
        let own = self.core()?.lost_reason();
        if own.is_some() {
            return Ok(own);
        }
        self.client.lost_reason()
    }

    /// Returns the error that ended the mirror; see [`statestore::Mirror::error`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn error(&self) -> Result<Option<Error>, Error> {
        Ok(self.core()?.error().map(Error::from))
    }

    /// Ends the mirror and its changes.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn close(&self) -> Result<(), Error> {
        self.core()?.close();
        Ok(())
    }

    /// Returns the client of the mirror.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn core(&self) -> Result<&CoreMirror, Error> {
        Ok(&self.inner.get()?.core)
    }
}

/// The changes of a mirror, which keep the mirror.
struct ChangeSource {
    changes: MirrorChanges,
    mirror: CoreMirror,
    end: StreamEnd,
}

impl ChangeSource {
    fn set_end(&self) {
        if self.changes.is_lagging() {
            let lagging = Error::new(
                ErrorKind::TooLarge,
                Outcome::NotDone,
                "following a mirror",
                "changes of too many keys wait: read them faster, or allow more keys (`max_keys`)",
            );
            self.end.set(Some(LostReason::Refused), Some(lagging));
            return;
        }
        let error = self.mirror.error().map(Error::from);
        self.end.set(self.mirror.lost_reason(), error);
    }
}

impl Source<MatchObservation> for ChangeSource {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<MatchObservation>> {
        // `next` keeps no state between two polls, so each poll can create it again.
        let next = pin!(self.changes.next()).poll(context);
        if let Poll::Ready(None) = next {
            self.set_end();
        }
        next
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.changes.poll_ready(context)
    }
}
