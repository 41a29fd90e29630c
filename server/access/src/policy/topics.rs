//! Sets of topics.

/// The topics that some filters match.
#[derive(Debug, Default)]
pub(super) struct TopicSet(Vec<Box<str>>);

impl TopicSet {
    /// Adds a filter (MQTT 5, section 4.7).
    pub(super) fn add(&mut self, filter: String) {
        let filter = filter.into_boxed_str();
        if !self.0.contains(&filter) {
            self.0.push(filter);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains a topic, or each topic that a filter matches.
    pub(super) fn contains(&self, filter: &str) -> bool {
        self.0.iter().any(|allowed| covers(allowed, filter))
    }
}

/// Returns whether `allowed` matches each topic that `filter` matches. A topic is a filter that matches itself.
fn covers(allowed: &str, filter: &str) -> bool {
    if filter.starts_with('$') && allowed.starts_with(['+', '#']) {
        return false;
    }
    let mut filter = filter.split('/');
    for level in allowed.split('/') {
        if level == "#" {
            return true;
        }
        match filter.next() {
            Some("#") | None => return false,
            Some(other) if level == "+" || level == other => {}
            Some(_) => return false,
        }
    }
    filter.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_covers_exactly_the_topics_it_matches() {
        for (allowed, wanted) in [
            ("a/b", "a/b"),
            ("a/+", "a/b"),
            ("a/+", "a/+"),
            ("a/#", "a"),
            ("a/#", "a/#"),
            ("a/#", "a/+/c/#"),
            ("#", "+/b"),
            ("#", "#"),
            ("$SYS/#", "$SYS/a"),
        ] {
            assert!(covers(allowed, wanted), "{allowed} {wanted}");
        }
        for (allowed, wanted) in [
            ("a/b", "a/c"),
            ("a/b", "a/+"),
            ("a/b", "#"),
            ("a/+", "a/#"),
            ("a/+", "a"),
            ("a/+", "a/b/c"),
            ("+/+", "#"),
            ("#", "$SYS/a"),
            ("+/a", "$SYS/a"),
            ("a", "a/b"),
        ] {
            assert!(!covers(allowed, wanted), "{allowed} {wanted}");
        }
    }

    mod properties {
        use super::*;
        use crate::topic_filter::matches;
        use proptest::prelude::*;

        fn filter() -> impl Strategy<Value = String> {
            let level = prop_oneof![Just("a"), Just("b"), Just(""), Just("+"), Just("$x")];
            (prop::collection::vec(level, 1..4), any::<bool>()).prop_map(|(mut levels, is_open)| {
                if is_open {
                    levels.push("#");
                }
                levels.join("/")
            })
        }

        proptest! {
            #[test]
            fn a_covered_filter_matches_no_additional_topics(allowed in filter(), wanted in filter(), levels in prop::collection::vec("[ab$x]{0,2}", 1..5)) {
                let topic = levels.join("/");
                if covers(&allowed, &wanted) && matches(&wanted, &topic) {
                    prop_assert!(matches(&allowed, &topic), "{allowed} {wanted} {topic}");
                }
                if !topic.is_empty() {
                    prop_assert_eq!(covers(&allowed, &topic), matches(&allowed, &topic));
                }
            }
        }
    }
}
