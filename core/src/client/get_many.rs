//! Many GETs at a time.
use super::call::Call;
use super::{Client, Entry, GetOptions, get};
use crate::error::Error;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// How many GETs of one call may be under way.
const AT_A_TIME: usize = 256;

impl Client {
    /// Reads several keys, in their order; `None` for each that is absent.
    ///
    /// The protocol has no command for that: these are single GETs, sent without waiting for each other. The result is
    /// **not a snapshot**: a writer may come between any two of them.
    ///
    /// # Errors
    /// The first error of any of them; the others are cancelled.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Entry>>, Error> {
        self.get_many_with(keys, &GetOptions::default()).await
    }

    /// Like [`get_many`](Self::get_many); the time-out is for each GET, from when it is sent.
    pub async fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &GetOptions,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let mut entries = Vec::with_capacity(keys.len());
        let mut under_way: VecDeque<Fetch<'_>> = VecDeque::new();
        let mut keys = keys.iter();
        poll_fn(|context| {
            loop {
                for fetch in &mut under_way {
                    fetch.poll(context)?;
                }
                while let Some(Fetch::Done(_)) = under_way.front() {
                    if let Some(Fetch::Done(entry)) = under_way.pop_front() {
                        entries.push(entry);
                    }
                }
                let started = under_way.len();
                for key in keys.by_ref().take(AT_A_TIME - started) {
                    under_way.push_back(Fetch::Running(self.start_get(
                        key.as_ref(),
                        options,
                        true,
                    )?));
                }
                if under_way.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                if under_way.len() == started {
                    return Poll::Pending;
                }
            }
        })
        .await
        .map(|()| entries)
    }
}

/// One of the GETs. All are polled whenever one may have news: each may have to send itself when its turn comes.
enum Fetch<'a> {
    Running(Call<'a>),
    Done(Option<Entry>),
}

impl Fetch<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        if let Self::Running(call) = self
            && let Poll::Ready(response) = Pin::new(&mut *call).poll(context)
        {
            let entry = get::entry(call, response?)?;
            *self = Self::Done(entry);
        }
        Ok(())
    }
}
