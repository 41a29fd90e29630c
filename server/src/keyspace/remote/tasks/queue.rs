//! Who works on one key: one at a time, or any number of reads.
use crate::keyspace::remote::task::TaskId;
use smallvec::SmallVec;

/// Those that work on a key, and those behind them. Whoever shares works while nobody before it does not.
#[derive(Debug, Default)]
pub(super) struct Queue(SmallVec<[(TaskId, bool); 2]>);

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the next one would have to wait, which shares if so.
    pub(super) fn is_behind(&self, shares: bool) -> bool {
        match &self.0[..] {
            [] => false,
            all => !shares || !all.iter().all(|(_, shares)| *shares),
        }
    }

    pub(super) fn push(&mut self, id: TaskId, shares: bool) {
        self.0.push((id, shares));
    }

    /// Removes one, and gives those that had to wait for it and for nobody else.
    pub(super) fn remove(&mut self, id: TaskId) -> SmallVec<[TaskId; 2]> {
        let Some(place) = self.0.iter().position(|(other, _)| *other == id) else {
            return SmallVec::new();
        };
        let (_, shared) = self.0.remove(place);
        let (before, behind) = self.0.split_at(place);
        if !before.iter().all(|(_, shares)| *shares) {
            return SmallVec::new();
        }
        match behind.first() {
            // Who shares, and is directly behind another one, did not wait.
            Some((_, true)) if shared => SmallVec::new(),
            Some((next, false)) if before.is_empty() => SmallVec::from_slice(&[*next]),
            _ => {
                let sharing = behind.iter().take_while(|(_, shares)| *shares);
                sharing.map(|(next, _)| *next).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Those that work.
    fn working(queue: &Queue) -> Vec<TaskId> {
        let alone = queue.0.iter().take(1);
        let sharing = queue.0.iter().take_while(|(_, shares)| *shares);
        let working = if queue.0.first().is_some_and(|(_, shares)| *shares) {
            sharing.collect::<Vec<_>>()
        } else {
            alone.collect()
        };
        working.into_iter().map(|(id, _)| *id).collect()
    }

    proptest! {
        #[test]
        fn whoever_works_had_nothing_to_wait_for_or_was_freed(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 1..40)
        ) {
            let mut queue = Queue::default();
            let mut known = Vec::new();
            for (number, (adds, which, shares)) in (0..).zip(steps) {
                if adds || queue.is_empty() {
                    let id = TaskId(number);
                    if !queue.is_behind(shares) {
                        known.push(id);
                    }
                    queue.push(id, shares);
                } else {
                    let (id, _) = queue.0[which.index(queue.0.len())];
                    known.retain(|known| *known != id);
                    known.extend(queue.remove(id));
                }
                prop_assert_eq!(&known, &working(&queue));
            }
        }
    }
}
