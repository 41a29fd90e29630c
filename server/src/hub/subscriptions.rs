//! Who subscribed to what: filters without wildcards by their text, the others in a tree with one level of a filter per
//! edge.
//!
//! Matching a topic walks the tree along the topic's levels, so its cost depends on the
//! depth of the topic and on the wildcards met, not on the number of subscriptions. There may be many of both, so that it
//! [says](SubscriptionTree::take_work) what it took.
use super::few::Few;
use std::collections::HashMap;

/// What a visit of a level takes, roughly in nanoseconds.
const VISIT_STEPS: usize = 100;

/// What a subscriber asked for (MQTT 5, section 3.8.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// Granted QoS is 1; otherwise 0.
    pub(crate) at_least_once: bool,
    /// Do not send back what this client published itself.
    pub(crate) no_local: bool,
    /// Comes back with each message that matches.
    pub(crate) identifier: Option<u32>,
}

/// One subscriber's share of a message: all its matching subscriptions as one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match<S> {
    /// Who gets it.
    pub(crate) subscriber: S,
    /// The highest QoS of the matching subscriptions is 1.
    pub(crate) at_least_once: bool,
    /// The identifiers of all matching subscriptions that have one, ascending.
    pub(crate) identifiers: Vec<u32>,
}

/// Subscriptions to one filter.
type Subscribers<S> = Few<S, Subscription>;

#[derive(Debug)]
struct Node<S> {
    children: Few<Box<str>, Box<Node<S>>>,
    /// The `+` edge.
    any: Option<Box<Node<S>>>,
    /// Subscribers of the filter that ends here.
    here: Subscribers<S>,
    /// Subscribers of the filter that ends here with a further `#`.
    below: Subscribers<S>,
}

impl<S> Default for Node<S> {
    fn default() -> Self {
        Self {
            children: Few::default(),
            any: None,
            here: Few::default(),
            below: Few::default(),
        }
    }
}

impl<S: Ord + Copy> Node<S> {
    fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.any.is_none()
            && self.here.is_empty()
            && self.below.is_empty()
    }

    /// The node of a level that is no wildcard, made if there is none.
    fn child(&mut self, level: &str) -> &mut Self {
        if self.children.get(level).is_none() {
            self.children.insert(level.into(), Box::default());
        }
        self.children
            .get_mut(level)
            .expect("it was there, or was inserted")
    }

    fn remove(&mut self, levels: &[&str], subscriber: S) -> bool {
        match levels {
            [] => self.here.remove(&subscriber).is_some(),
            ["#"] => self.below.remove(&subscriber).is_some(),
            ["+", rest @ ..] => {
                let Some(node) = &mut self.any else {
                    return false;
                };
                let removed = node.remove(rest, subscriber);
                if node.is_empty() {
                    self.any = None;
                }
                removed
            }
            [level, rest @ ..] => {
                let Some(node) = self.children.get_mut(*level) else {
                    return false;
                };
                let removed = node.remove(rest, subscriber);
                if node.is_empty() {
                    self.children.remove(*level);
                }
                removed
            }
        }
    }

    /// `wild` is false only at the first level of a topic that begins with `$`.
    fn visit(
        &self,
        rest: Option<&str>,
        wild: bool,
        found: &mut Vec<(S, Subscription)>,
        work: &mut usize,
    ) {
        *work += VISIT_STEPS;
        if wild {
            found.extend(self.below.iter().map(|(s, options)| (*s, *options)));
        }
        let Some(rest) = rest else {
            found.extend(self.here.iter().map(|(s, options)| (*s, *options)));
            return;
        };
        let (level, rest) = match rest.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (rest, None),
        };
        if let Some(node) = self.children.get(level) {
            node.visit(rest, true, found, work);
        }
        if wild && let Some(node) = &self.any {
            node.visit(rest, true, found, work);
        }
    }
}

/// All subscriptions of all subscribers `S`.
#[derive(Debug)]
pub(crate) struct SubscriptionTree<S> {
    /// To filters that match one topic only.
    exact: HashMap<Box<str>, Subscribers<S>>,
    root: Node<S>,
    found: Vec<(S, Subscription)>,
    work: usize,
}

impl<S> Default for SubscriptionTree<S> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            root: Node::default(),
            found: Vec::new(),
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
                let subscribers = Few::One(subscriber, subscription);
                self.exact.insert(filter.into(), subscribers);
            }
            return;
        }
        let mut node = &mut self.root;
        for level in filter.split('/') {
            node = match level {
                "#" => {
                    node.below.insert(subscriber, subscription);
                    return;
                }
                "+" => node.any.get_or_insert_default(),
                _ => node.child(level),
            };
        }
        node.here.insert(subscriber, subscription);
    }

    /// Removes it; whether there was one.
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
        self.root.remove(&levels, subscriber)
    }

    /// Each subscriber that gets a message published to `topic` by `publisher`, in the order
    /// of the subscribers, once each.
    pub(crate) fn matches(&mut self, topic: &str, publisher: Option<S>) -> Vec<Match<S>> {
        self.found.clear();
        if let Some(subscribers) = self.exact.get(topic) {
            let subscribers = subscribers.iter();
            self.found
                .extend(subscribers.map(|(s, options)| (*s, *options)));
        }
        let (found, work) = (&mut self.found, &mut self.work);
        let is_wild = !topic.starts_with('$');
        self.root.visit(Some(topic), is_wild, found, work);
        self.found
            .retain(|(s, options)| !(options.no_local && Some(*s) == publisher));
        self.found
            .sort_by_key(|(s, options)| (*s, options.identifier));
        let mut matches: Vec<Match<S>> = Vec::with_capacity(self.found.len());
        for (subscriber, options) in self.found.drain(..) {
            if matches
                .last()
                .is_none_or(|last| last.subscriber != subscriber)
            {
                matches.push(Match {
                    subscriber,
                    at_least_once: false,
                    identifiers: Vec::new(),
                });
            }
            if let Some(last) = matches.last_mut() {
                last.at_least_once |= options.at_least_once;
                last.identifiers.extend(options.identifier);
                last.identifiers.dedup();
            }
        }
        matches
    }

    /// What matching took since the last call, roughly in nanoseconds.
    pub(crate) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Whether nobody is subscribed to anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.root.is_empty()
    }
}

/// Whether a valid filter has no wildcards.
pub(super) fn is_exact(filter: &str) -> bool {
    !filter.contains(['+', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic_filter;
    use proptest::prelude::*;

    const QOS1: Subscription = Subscription {
        at_least_once: true,
        no_local: false,
        identifier: None,
    };

    fn who(tree: &mut SubscriptionTree<u32>, topic: &str) -> Vec<u32> {
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
                Match {
                    subscriber: 1,
                    at_least_once: true,
                    identifiers: vec![3, 9]
                },
                Match {
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
    fn removal_leaves_nothing_behind() {
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
            prop_assert_eq!(who(&mut tree, &topic), expected);
        }
    }
}
