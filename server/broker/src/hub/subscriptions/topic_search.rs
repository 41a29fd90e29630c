//! Matching a topic, in slices.
use super::matched_subscribers::MatchedSubscribers;
use super::node::{EdgeKind, FilterSubscribers, Node};

/// Subscribers that take as long to find as a node.
const SUBSCRIBERS_PER_VISIT: usize = 8;

/// The places that a topic is looked up in, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchStage {
    /// Filters without wildcards.
    Exact,
    /// Filters with as many levels that end in the last level of the topic.
    SameLastLevel,
    /// Filters with as many levels that end in `+`.
    SingleLevelEnd,
    /// Filters that end in `#`.
    MultiLevel,
}

/// The progress of matching one topic.
#[derive(Debug)]
pub(crate) struct TopicSearch<S> {
    /// The tree that is walked; `None` once all are.
    pub(super) stage: Option<SearchStage>,
    /// The edges to the node that is visited next.
    pub(super) path: Vec<EdgeKind>,
    /// The subscriber of the filter at hand that was found last, if there are further ones.
    last: Option<S>,
    found: MatchedSubscribers<S>,
}

impl<S: Ord + Copy> TopicSearch<S> {
    pub(crate) fn new() -> Self {
        Self {
            stage: Some(SearchStage::Exact),
            path: Vec::new(),
            last: None,
            found: MatchedSubscribers::default(),
        }
    }

    /// Adds subscribers of a filter from after the last one on, at least some and as many as `visits` allows. Returns whether there are no
    /// further ones.
    pub(super) fn add(
        &mut self,
        subscribers: &FilterSubscribers<S>,
        publisher: Option<S>,
        visits: &mut usize,
    ) -> bool {
        let former = self.last.take();
        let mut last = former;
        let further = subscribers.range_after(former.as_ref());
        for ((subscriber, options), number) in further.zip(1_usize..) {
            if number.is_multiple_of(SUBSCRIBERS_PER_VISIT) {
                if *visits == 0 {
                    self.last = last;
                    return false;
                }
                *visits -= 1;
            }
            if !options.no_local || Some(*subscriber) != publisher {
                self.found.push(*subscriber, *options);
            }
            last = Some(*subscriber);
        }
        true
    }

    /// Returns whether the search goes on within a filter, which may be gone by now.
    pub(super) fn is_within_filter(&self) -> bool {
        self.last.is_some()
    }

    /// Leaves the filter at hand.
    pub(super) fn leave_filter(&mut self) {
        self.last = None;
    }

    /// Returns the subscribers that get the message, in their order, once each.
    pub(crate) fn into_matches(self) -> MatchedSubscribers<S> {
        self.found
    }
}

/// The place in one tree at which a slice of a search stands.
pub(super) struct TreeCursor<'a, S> {
    levels: &'a [&'a str],
    /// Whether a wildcard matches the first level: not if the topic begins with `$`.
    is_wild: bool,
    /// Number of levels to walk.
    depth: usize,
    pub(super) nodes: Vec<&'a Node<S>>,
}

impl<'a, S: Ord + Copy> TreeCursor<'a, S> {
    /// Returns to the node that is visited next, or to the one behind it if that node is gone. Returns `None` if there is none.
    pub(super) fn resume(
        root: &'a Node<S>,
        (levels, is_wild, depth): (&'a [&'a str], bool, usize),
        path: &mut Vec<EdgeKind>,
    ) -> Option<Self> {
        let nodes = vec![root];
        let mut walk = Self {
            levels,
            is_wild,
            depth,
            nodes,
        };
        for at in 0..path.len() {
            let node = walk.nodes[at].at(path[at], levels[at]);
            let Some(node) = node else {
                path.truncate(at + 1);
                let edge = path.pop()?;
                return (walk.follow_after(edge, path) || walk.skip_subtree(path)).then_some(walk);
            };
            walk.nodes.push(node);
        }
        Some(walk)
    }

    fn follow(&mut self, edge: EdgeKind, path: &mut Vec<EdgeKind>) -> bool {
        let at = path.len();
        if at == self.depth || (edge == EdgeKind::SingleLevel && at == 0 && !self.is_wild) {
            return false;
        }
        let Some(node) = self.nodes[at].at(edge, self.levels[at]) else {
            return false;
        };
        path.push(edge);
        self.nodes.push(node);
        true
    }

    /// Follows the edge behind this one.
    fn follow_after(&mut self, edge: EdgeKind, path: &mut Vec<EdgeKind>) -> bool {
        edge == EdgeKind::Literal && self.follow(EdgeKind::SingleLevel, path)
    }

    /// Goes to the next node that is not below this one; returns whether there is one.
    fn skip_subtree(&mut self, path: &mut Vec<EdgeKind>) -> bool {
        while let Some(edge) = path.pop() {
            self.nodes.truncate(path.len() + 1);
            if self.follow_after(edge, path) {
                return true;
            }
        }
        false
    }

    /// Goes to the next node; returns whether there is one.
    pub(super) fn next(&mut self, path: &mut Vec<EdgeKind>) -> bool {
        self.follow(EdgeKind::Literal, path)
            || self.follow(EdgeKind::SingleLevel, path)
            || self.skip_subtree(path)
    }
}
