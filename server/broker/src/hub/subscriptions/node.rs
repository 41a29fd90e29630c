//! Nodes of the trees of filters.
use super::Subscription;
use crate::hub::small_map::SmallMap;

/// Subscriptions to one filter.
pub(super) type FilterSubscribers<S> = SmallMap<S, Subscription>;

#[derive(Debug)]
pub(super) struct Node<S> {
    children: SmallMap<Box<str>, Box<Node<S>>>,
    /// The `+` edge.
    single_level: Option<Box<Node<S>>>,
    /// Subscribers of the filter whose levels before its last one end here.
    pub(super) subscribers: FilterSubscribers<S>,
}

impl<S> Default for Node<S> {
    fn default() -> Self {
        Self {
            children: SmallMap::default(),
            single_level: None,
            subscribers: SmallMap::default(),
        }
    }
}

impl<S: Ord + Copy> Node<S> {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.single_level.is_none() && self.subscribers.is_empty()
    }

    pub(super) fn insert(&mut self, levels: &[&str], subscriber: S, subscription: Subscription) {
        let mut node = self;
        for level in levels {
            node = match *level {
                "+" => node.single_level.get_or_insert_default(),
                level => node.child(level),
            };
        }
        node.subscribers.insert(subscriber, subscription);
    }

    /// Returns the node of a level that is no wildcard, and creates it if there is none.
    fn child(&mut self, level: &str) -> &mut Self {
        if self.children.get(level).is_none() {
            self.children.insert(level.into(), Box::default());
        }
        self.children
            .get_mut(level)
            .expect("it was there, or was inserted")
    }

    pub(super) fn remove(&mut self, levels: &[&str], subscriber: S) -> bool {
        match levels {
            [] => self.subscribers.remove(&subscriber).is_some(),
            ["+", rest @ ..] => {
                let Some(node) = &mut self.single_level else {
                    return false;
                };
                let removed = node.remove(rest, subscriber);
                if node.is_empty() {
                    self.single_level = None;
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

    pub(super) fn at(&self, edge: EdgeKind, level: &str) -> Option<&Self> {
        match edge {
            EdgeKind::Literal => self.children.get(level).map(|node| &**node),
            EdgeKind::SingleLevel => self.single_level.as_deref(),
        }
    }
}

/// The edges that a level of a topic may follow, in the order in which they are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeKind {
    Literal,
    SingleLevel,
}
