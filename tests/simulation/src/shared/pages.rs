//! Pages of keys. Each starts at the end of another page, which any node may have returned, with any changes in between.
use super::ground_truth::{GroundTruth, KeyStates};
use super::simulated_link::STORE_SECRET;
use super::{NodeRequest, RequestKind};
use bytes::Bytes;
use statestore_protocol::Reply;
use statestored_shared::{Record, bucket_of};
use statestored_store::keyspace::{Completion, PageTokens};

/// Number of records that a node reads for a page: some pages have no key at all.
pub(super) const MAX_PAGE_RECORDS: usize = 2;

/// Returns the end of the last page that is followed by another one.
pub(super) fn last_token(asked: &[NodeRequest]) -> Option<Bytes> {
    let answered = asked.iter().rev().take(300);
    let mut tokens = answered.filter_map(|asked| match (&asked.kind, &asked.completion) {
        (
            RequestKind::Page { .. },
            Some((
                _,
                Completion::Answered {
                    reply: Reply::Page { token, .. } | Reply::EntryPage { token, .. },
                    ..
                },
            )),
        ) => token.clone(),
        _ => None,
    });
    tokens.next()
}

type PagePosition = (u16, Bytes);

fn position_of(key: &Bytes) -> PagePosition {
    (bucket_of(key), key.clone())
}

/// An answered page: the keys after one position, up to another one or to the end.
pub(super) struct Page<'a> {
    after: Option<PagePosition>,
    up_to: Option<PagePosition>,
    keys: &'a [Bytes],
}

impl<'a> Page<'a> {
    pub(super) fn new(
        after: Option<&Bytes>,
        token: Option<&Bytes>,
        keys: &'a [Bytes],
    ) -> Result<Self, String> {
        let tokens = PageTokens::new(STORE_SECRET);
        let key = |token: &Bytes| {
            let position = tokens.open(token).ok_or("a token of another store")?;
            let (bucket, key) = position.split_first_chunk().ok_or("a short token")?;
            Ok::<_, String>((u16::from_be_bytes(*bucket), Bytes::copy_from_slice(key)))
        };
        Ok(Self {
            after: after.map(key).transpose()?,
            up_to: token.map(key).transpose()?,
            keys,
        })
    }

    fn covers(&self, key: &Bytes) -> bool {
        let place = position_of(key);
        self.after.as_ref().is_none_or(|after| place > *after)
            && self.up_to.as_ref().is_none_or(|up_to| place <= *up_to)
    }

    /// Checks that the page advances. It has each key within its range that existed all the time, once and in order. It has no
    /// key that existed at no time.
    pub(super) fn check(
        &self,
        truth: &GroundTruth<'_>,
        from_ms: u64,
        to_ms: u64,
    ) -> Result<(), String> {
        if self.up_to.is_some() && self.up_to <= self.after {
            return Err("it ends where it began".into());
        }
        if !self.keys.is_sorted_by_key(position_of) {
            return Err("its keys are in no order".into());
        }
        let is_entry =
            |states: &KeyStates, key: &Bytes| states.get(key).is_some_and(Record::is_entry);
        for (index, key) in self.keys.iter().enumerate() {
            let mut states = truth.between(from_ms, to_ms);
            if !self.covers(key) || !states.any(|states| is_entry(states, key)) {
                return Err(format!("{key:?} was not there"));
            }
            if self.keys[..index].contains(key) {
                return Err(format!("{key:?} is there twice"));
            }
        }
        let first = truth.between(from_ms, to_ms).next().ok_or("no state")?;
        for key in first.keys().filter(|key| self.covers(key)) {
            // An expired key may be left out before its expiry is committed.
            let stays = truth.between(from_ms, to_ms).all(|states| {
                is_entry(states, key) && states.get(key).is_some_and(|it| it.expiry().is_none())
            });
            if stays && !self.keys.contains(key) {
                return Err(format!("{key:?} is missing"));
            }
        }
        Ok(())
    }
}
