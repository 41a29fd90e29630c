//! Subscriptions. Filters without wildcards are found by their text, the others in trees with one level of a filter per edge.
//!
//! Filters with wildcards are grouped by their number of levels. Each group has a tree for each last level, and one for filters that end in
//! `+`. All filters that end in `#` share one tree. A topic is looked up in the trees of its own last level, so filters that differ from it
//! there cost nothing.
//!
//! Matching walks a tree along the levels of the topic. A filter that differs from the topic at its end only is walked to that end, and
//! there may be many. So a [`TopicSearch`] goes on [in slices](SubscriptionTree::search), between which subscriptions may come and go.
mod matched_subscribers;
mod node;
mod topic_search;

pub(crate) use matched_subscribers::MatchedSubscribers;
pub(crate) use topic_search::TopicSearch;

use super::small_map::SmallMap;
use node::{FilterSubscribers, Node};
use std::collections::HashMap;
use topic_search::{SearchStage, TreeCursor};

/// Time of a visit of a level, roughly in nanoseconds.
pub(super) const VISIT_STEPS: usize = 100;

/// Options of a subscription (MQTT 5, section 3.8.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// Whether the granted QoS is 1; if not, it is 0.
    pub(crate) at_least_once: bool,
    /// Whether messages that this client published itself are not sent back.
    pub(crate) no_local: bool,
    /// Identifier that is sent with each matching message.
    pub(crate) identifier: Option<u32>,
}

/// Delivery of a message to one subscriber, for all its matching subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchedSubscriber<S> {
    /// The subscriber that gets the message.
    pub(crate) subscriber: S,
    /// Whether the highest QoS of the matching subscriptions is 1.
    pub(crate) at_least_once: bool,
    /// The identifiers of all matching subscriptions that have one, ascending.
    pub(crate) identifiers: Vec<u32>,
}

/// All subscriptions of all subscribers `S`.
#[derive(Debug)]
pub(crate) struct SubscriptionTree<S> {
    /// Filters that match one topic only.
    exact: HashMap<Box<str>, FilterSubscribers<S>>,
    /// Filters with wildcards but without a `#`, by the number of levels.
    by_level_count: HashMap<usize, LevelGroup<S>>,
    /// Filters that end in `#`.
    multi_level: Node<S>,
    work: usize,
}

/// Filters with wildcards that have the same number of levels.
#[derive(Debug)]
struct LevelGroup<S> {
    by_last_level: HashMap<Box<str>, Node<S>>,
    single_level_end: Node<S>,
}

impl<S> Default for LevelGroup<S> {
    fn default() -> Self {
        Self {
            by_last_level: HashMap::new(),
            single_level_end: Node::default(),
        }
    }
}

impl<S> Default for SubscriptionTree<S> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            by_level_count: HashMap::new(),
            multi_level: Node::default(),
            work: 0,
        }
    }
}

impl<S: Ord + Copy> SubscriptionTree<S> {
    /// Adds or replaces the subscription of `subscriber` to `filter`, a valid one.
    pub(crate) fn insert(&mut self, filter: &str, subscriber: S, subscription: Subscription) {
        if is_exact(filter) {
            // The text is copied only if it is not there.
            if let Some(subscribers) = self.exact.get_mut(filter) {
                subscribers.insert(subscriber, subscription);
            } else {
                let subscribers = SmallMap::One(subscriber, subscription);
                self.exact.insert(filter.into(), subscribers);
            }
            return;
        }
        let levels: Vec<&str> = filter.split('/').collect();
        let Some((last, before)) = levels.split_last() else {
            return;
        };
        let tree = match *last {
            "#" => &mut self.multi_level,
            "+" => {
                &mut self
                    .by_level_count
                    .entry(levels.len())
                    .or_default()
                    .single_level_end
            }
            last => {
                let trees = &mut self
                    .by_level_count
                    .entry(levels.len())
                    .or_default()
                    .by_last_level;
                trees.entry(last.into()).or_default()
            }
        };
        tree.insert(before, subscriber, subscription);
    }

    /// Removes the subscription of `subscriber` to `filter`. Returns whether there was one.
    pub(crate) fn remove(&mut self, filter: &str, subscriber: S) -> bool {
        if is_exact(filter) {
            let Some(subscribers) = self.exact.get_mut(filter) else {
                return false;
            };
            let removed = subscribers.remove(&subscriber).is_some();
            if subscribers.is_empty() {
                self.exact.remove(filter);
            }
            return removed;
        }
        let levels: Vec<&str> = filter.split('/').collect();
        let Some((last, before)) = levels.split_last() else {
            return false;
        };
        if *last == "#" {
            return self.multi_level.remove(before, subscriber);
        }
        let Some(trees) = self.by_level_count.get_mut(&levels.len()) else {
            return false;
        };
        let removed = if *last == "+" {
            trees.single_level_end.remove(before, subscriber)
        } else {
            let Some(tree) = trees.by_last_level.get_mut(*last) else {
                return false;
            };
            let removed = tree.remove(before, subscriber);
            if tree.is_empty() {
                trees.by_last_level.remove(*last);
            }
            removed
        };
        if trees.by_last_level.is_empty() && trees.single_level_end.is_empty() {
            self.by_level_count.remove(&levels.len());
        }
        removed
    }

    /// Returns each subscriber that gets a message published to `topic` by `publisher`, in the order
    /// of the subscribers, once each.
    pub(crate) fn matches(
        &mut self,
        topic: &str,
        publisher: Option<S>,
    ) -> Vec<MatchedSubscriber<S>> {
        let mut search = TopicSearch::new();
        let mut visits = usize::MAX;
        while !self.search(topic, publisher, &mut search, &mut visits) {}
        search.into_matches().collect()
    }

    /// Continues to match a topic, with at most `visits` visits of nodes, or eight times as many subscribers. Returns whether the search
    /// has ended. Subscriptions that came or went since the last slice may be found or not.
    pub(crate) fn search(
        &mut self,
        topic: &str,
        publisher: Option<S>,
        search: &mut TopicSearch<S>,
        visits: &mut usize,
    ) -> bool {
        let levels: Vec<&str> = topic.split('/').collect();
        let is_wild = !topic.starts_with('$');
        let before = levels.len() - 1;
        while let Some(part) = search.stage {
            let of_levels = self.by_level_count.get(&levels.len());
            let (tree, depth) = match part {
                SearchStage::Exact => {
                    if let Some(subscribers) = self.exact.get(topic) {
                        let before = *visits;
                        let is_done = search.add(subscribers, publisher, visits);
                        self.work += (before - *visits) * VISIT_STEPS;
                        if !is_done {
                            return false;
                        }
                    }
                    (None, 0)
                }
                SearchStage::SameLastLevel => {
                    let trees = of_levels.map(|it| &it.by_last_level);
                    (trees.and_then(|it| it.get(levels[before])), before)
                }
                // The filter `+` is all wildcard.
                SearchStage::SingleLevelEnd if before == 0 && !is_wild => (None, 0),
                SearchStage::SingleLevelEnd => (of_levels.map(|it| &it.single_level_end), before),
                SearchStage::MultiLevel => (Some(&self.multi_level), levels.len()),
            };
            let place = (&levels[..], is_wild, depth);
            let mut path = std::mem::take(&mut search.path);
            let former = search.is_within_filter().then(|| path.clone());
            let mut walk = tree.and_then(|tree| TreeCursor::resume(tree, place, &mut path));
            if former.is_some_and(|former| former != path) {
                search.leave_filter();
            }
            while let Some(here) = &mut walk {
                if *visits == 0 {
                    search.path = path;
                    return false;
                }
                *visits -= 1;
                self.work += VISIT_STEPS;
                // The filter `#` does not match a topic that begins with `$`.
                let ends = match part {
                    SearchStage::MultiLevel => !path.is_empty() || is_wild,
                    SearchStage::Exact
                    | SearchStage::SameLastLevel
                    | SearchStage::SingleLevelEnd => path.len() == depth,
                };
                if let Some(node) = here.nodes.last()
                    && ends
                {
                    let before = *visits;
                    let is_done = search.add(&node.subscribers, publisher, visits);
                    self.work += (before - *visits) * VISIT_STEPS;
                    if !is_done {
                        search.path = path;
                        return false;
                    }
                }
                if !here.next(&mut path) {
                    walk = None;
                }
            }
            search.path.clear();
            search.leave_filter();
            search.stage = match part {
                SearchStage::Exact => Some(SearchStage::SameLastLevel),
                SearchStage::SameLastLevel => Some(SearchStage::SingleLevelEnd),
                SearchStage::SingleLevelEnd => Some(SearchStage::MultiLevel),
                SearchStage::MultiLevel => None,
            };
        }
        true
    }

    /// Returns the time that matching took since the last call, roughly in nanoseconds.
    pub(crate) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Returns whether there are no subscriptions.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.by_level_count.is_empty() && self.multi_level.is_empty()
    }
}

/// Returns whether a valid filter has no wildcards.
pub(super) fn is_exact(filter: &str) -> bool {
    !filter.contains(['+', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statestored_access::topic_filter;

    const QOS1: Subscription = Subscription {
        at_least_once: true,
        no_local: false,
        identifier: None,
    };

    fn matching_subscribers(tree: &mut SubscriptionTree<u32>, topic: &str) -> Vec<u32> {
        tree.matches(topic, None)
            .iter()
            .map(|m| m.subscriber)
            .collect()
    }

    #[test]
    fn overlapping_subscriptions_are_one_delivery() {
        let mut tree = SubscriptionTree::default();
        let at_most_once = Subscription {
            at_least_once: false,
            ..QOS1
        };
        tree.insert(
            "a/+",
            1,
            Subscription {
                identifier: Some(9),
                ..at_most_once
            },
        );
        tree.insert(
            "a/#",
            1,
            Subscription {
                identifier: Some(3),
                ..QOS1
            },
        );
        tree.insert("a/b", 1, at_most_once);
        tree.insert("a/b", 2, at_most_once);
        assert_eq!(
            tree.matches("a/b", None),
            [
                MatchedSubscriber {
                    subscriber: 1,
                    at_least_once: true,
                    identifiers: vec![3, 9]
                },
                MatchedSubscriber {
                    subscriber: 2,
                    at_least_once: false,
                    identifiers: vec![]
                },
            ]
        );
    }

    #[test]
    fn no_local_excludes_only_that_subscription() {
        let mut tree = SubscriptionTree::default();
        tree.insert(
            "a",
            1,
            Subscription {
                no_local: true,
                identifier: Some(1),
                ..QOS1
            },
        );
        assert!(tree.matches("a", Some(1)).is_empty());
        assert_eq!(tree.matches("a", Some(2)).len(), 1);
        tree.insert(
            "+",
            1,
            Subscription {
                identifier: Some(2),
                ..QOS1
            },
        );
        assert_eq!(tree.matches("a", Some(1))[0].identifiers, [2]);
    }

    #[test]
    fn removal_frees_all_nodes() {
        let mut tree = SubscriptionTree::default();
        let filters = ["a/b/c", "a/+/c", "a/b/#", "#", "+"];
        for filter in filters {
            tree.insert(filter, 1, QOS1);
        }
        assert!(!tree.remove("a/b", 1) && !tree.remove("a/b/c", 2) && !tree.remove("x/+", 1));
        for filter in filters {
            assert!(tree.remove(filter, 1));
        }
        assert!(tree.is_empty());
    }

    #[test]
    fn filters_with_another_last_level_are_not_visited() {
        let mut tree = SubscriptionTree::default();
        for number in 0..1_u32 << 10 {
            let level = |at: u32| if (number >> at) & 1 == 1 { "+/" } else { "a/" };
            let filter: String = (0..10).map(level).chain(["z"]).collect();
            tree.insert(&filter, number, QOS1);
        }
        assert!(matching_subscribers(&mut tree, "a/a/a/a/a/a/a/a/a/a/b").is_empty());
        assert!(tree.take_work() < 10 * VISIT_STEPS);
        assert_eq!(
            matching_subscribers(&mut tree, "a/a/a/a/a/a/a/a/a/a/z").len(),
            1 << 10
        );
    }

    #[test]
    fn a_search_survives_changes_between_its_slices() {
        let mut tree = SubscriptionTree::default();
        let filters = ["a/b/+", "a/+/c", "+/b/c", "+/+/c", "a/#", "+/+/#"];
        for (filter, subscriber) in filters.iter().zip(0u32..) {
            tree.insert(filter, subscriber, QOS1);
        }
        let stays = [2, 3, 4];
        for removed_after in 0..20 {
            let mut search = TopicSearch::new();
            let mut slices = 0;
            while !tree.search("a/b/c", None, &mut search, &mut 1) {
                if slices == removed_after {
                    for gone in [0, 1, 5] {
                        assert!(tree.remove(filters[gone as usize], gone));
                    }
                }
                slices += 1;
            }
            let found: Vec<_> = search.into_matches().collect();
            for subscriber in stays {
                assert!(found.iter().any(|it| it.subscriber == subscriber));
            }
            for gone in [0, 1, 5] {
                tree.insert(filters[gone as usize], gone, QOS1);
            }
        }
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_matching_one_by_one(
            filters in prop::collection::vec("(\\+|\\$?[ab]|)(/(\\+|[ab]|)){0,3}(/#)?|#", 0..12),
            topic in "(\\$?[ab]|)(/([ab]|)){0,4}",
        ) {
            prop_assume!(topic_filter::is_valid_topic(&topic));
            let mut tree = SubscriptionTree::default();
            let mut expected = Vec::new();
            for (subscriber, filter) in (0u32..).zip(&filters) {
                if !topic_filter::is_valid_filter(filter) {
                    continue;
                }
                tree.insert(filter, subscriber, QOS1);
                if topic_filter::matches(filter, &topic) {
                    expected.push(subscriber);
                }
            }
            prop_assert_eq!(matching_subscribers(&mut tree, &topic), &expected[..]);
            let mut search = TopicSearch::new();
            while !tree.search(&topic, None, &mut search, &mut 1) {}
            let sliced: Vec<_> = search.into_matches().map(|it| it.subscriber).collect();
            prop_assert_eq!(sliced, expected);
        }
    }
}
