//! Many GETs at a time.
use super::call::Call;
use super::{Client, Entry, GetOptions, get};
use crate::error::Error;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// How many GETs of one call may be under way.
const AHEAD: usize = 1024;

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
        let mut under_way: VecDeque<Call<'_>> = VecDeque::new();
        for key in keys {
            if under_way.len() >= AHEAD {
                finish(&mut under_way, &mut entries).await?;
            }
            let mut call = self.start_get(key.as_ref(), options)?;
            // The first poll sends it; it is never ready then, except with an error.
            let started = poll_fn(|context| Poll::Ready(Pin::new(&mut call).poll(context))).await;
            if let Poll::Ready(result) = started {
                entries.push(get::entry(&call, result?)?);
            } else {
                under_way.push_back(call);
            }
        }
        while !under_way.is_empty() {
            finish(&mut under_way, &mut entries).await?;
        }
        Ok(entries)
    }
}

/// Waits for the oldest GET.
async fn finish(
    under_way: &mut VecDeque<Call<'_>>,
    entries: &mut Vec<Option<Entry>>,
) -> Result<(), Error> {
    if let Some(mut call) = under_way.pop_front() {
        let response = (&mut call).await?;
        entries.push(get::entry(&call, response)?);
    }
    Ok(())
}
