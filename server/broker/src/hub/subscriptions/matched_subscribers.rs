//! The subscribers of a message, in their order, made one at a time.
use super::{MatchedSubscriber, Subscription};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Matching subscriptions: found filter by filter, and given out subscriber by subscriber.
///
/// The subscribers of each filter are found in their order, so `found` consists of sorted runs. Giving out one subscriber merges the heads
/// of these runs. For each of its subscriptions, that takes the logarithm of the number of runs. No step takes longer the more subscribers
/// there are.
#[derive(Debug)]
pub(crate) struct MatchedSubscribers<S> {
    /// Subscriptions in the order in which they were found.
    found: Vec<(S, Subscription)>,
    /// The next subscription of each run, by its subscriber.
    heads: BinaryHeap<Reverse<(S, usize)>>,
}

impl<S> Default for MatchedSubscribers<S>
where
    S: Ord,
{
    fn default() -> Self {
        Self {
            found: Vec::new(),
            heads: BinaryHeap::new(),
        }
    }
}

impl<S: Ord + Copy> MatchedSubscribers<S> {
    /// Adds a subscription.
    pub(super) fn push(&mut self, subscriber: S, subscription: Subscription) {
        let continues = self
            .found
            .last()
            .is_some_and(|(last, _)| *last <= subscriber);
        if !continues {
            self.heads.push(Reverse((subscriber, self.found.len())));
        }
        self.found.push((subscriber, subscription));
    }

    /// Returns whether there are no further subscribers.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Returns the memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.found.capacity() * size_of::<(S, Subscription)>()
            + self.heads.capacity() * size_of::<Reverse<(S, usize)>>()
    }

    /// Adds the subscriptions of a run that are of the subscriber of its head to `whole`.
    fn take_run(&mut self, head: usize, whole: &mut MatchedSubscriber<S>) {
        let mut at = head;
        while let Some((subscriber, subscription)) = self.found.get(at) {
            if *subscriber != whole.subscriber {
                if *subscriber > whole.subscriber {
                    self.heads.push(Reverse((*subscriber, at)));
                }
                return;
            }
            whole.add(*subscription);
            at += 1;
        }
    }
}

impl<S: Ord + Copy> Iterator for MatchedSubscribers<S> {
    type Item = MatchedSubscriber<S>;

    /// Returns the next subscriber, with all its subscriptions.
    fn next(&mut self) -> Option<MatchedSubscriber<S>> {
        let Reverse((subscriber, head)) = self.heads.pop()?;
        let mut whole = MatchedSubscriber {
            subscriber,
            at_least_once: false,
            identifiers: Vec::new(),
        };
        self.take_run(head, &mut whole);
        while let Some(Reverse((next, head))) = self.heads.peek().copied()
            && next == subscriber
        {
            self.heads.pop();
            self.take_run(head, &mut whole);
        }
        Some(whole)
    }
}

impl<S> MatchedSubscriber<S> {
    fn add(&mut self, options: Subscription) {
        self.at_least_once |= options.at_least_once;
        if let Some(identifier) = options.identifier
            && let Err(place) = self.identifiers.binary_search(&identifier)
        {
            self.identifiers.insert(place, identifier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SubscriptionTree, TopicSearch};
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// A subscriber that counts how often it is compared.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct CountingSubscriber(u32);

    impl Ord for CountingSubscriber {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for CountingSubscriber {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    /// Returns how many comparisons `work` makes.
    fn comparisons<T>(work: impl FnOnce() -> T) -> (T, usize) {
        COMPARISONS.set(0);
        let done = work();
        (done, COMPARISONS.get())
    }

    #[test]
    fn step_cost_does_not_grow_with_the_number_of_subscribers() {
        const SUBSCRIBERS: u32 = 20_000;
        const VISITS: usize = 20;
        const MOST: usize = 2_000;
        let mut tree = SubscriptionTree::default();
        let subscription = Subscription {
            at_least_once: true,
            no_local: false,
            identifier: None,
        };
        for number in 0..SUBSCRIBERS {
            tree.insert("a/b", CountingSubscriber(number), subscription);
            if number % 2 == 0 {
                tree.insert("a/+", CountingSubscriber(number), subscription);
            }
            if number % 3 == 0 {
                tree.insert("#", CountingSubscriber(number), subscription);
            }
        }
        let mut search = TopicSearch::new();
        loop {
            let slice = || tree.search("a/b", None, &mut search, &mut { VISITS });
            let (is_done, took) = comparisons(slice);
            assert!(took < MOST, "{took} comparisons in a slice");
            if is_done {
                break;
            }
        }
        let (found, took) = comparisons(|| search.into_matches());
        assert!(
            took < MOST,
            "{took} comparisons between search and delivery"
        );
        let mut found = found.into_iter();
        for number in 0..SUBSCRIBERS {
            let (next, took) = comparisons(|| found.next());
            assert_eq!(next.map(|it| it.subscriber.0), Some(number));
            assert!(took < 100, "{took} comparisons for one subscriber");
        }
        assert!(found.next().is_none());
    }
}
