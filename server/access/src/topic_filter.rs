//! Topic names and topic filters (MQTT 5, section 4.7).

/// Maximum number of levels of a filter; deeper ones are rejected as an implementation limit.
///
/// The search in the tree of subscriptions makes a call per level, so this bounds the stack.
pub const MAX_LEVELS: usize = 128;

/// Returns whether `topic` is valid in a PUBLISH: not empty, no wildcard, no NUL.
pub fn is_valid_topic(topic: &str) -> bool {
    !topic.is_empty() && !topic.bytes().any(|b| matches!(b, b'+' | b'#' | 0))
}

/// Returns whether `filter` is valid in a SUBSCRIBE: wildcards fill a whole level, and `#` only the last one.
pub fn is_valid_filter(filter: &str) -> bool {
    if filter.is_empty() || filter.contains('\0') {
        return false;
    }
    let mut levels = filter.split('/').enumerate().peekable();
    while let Some((depth, level)) = levels.next() {
        let valid = match level {
            "#" => levels.peek().is_none(),
            "+" => true,
            _ => !level.contains(['+', '#']),
        };
        if !valid || depth >= MAX_LEVELS {
            return false;
        }
    }
    true
}

/// Returns whether `filter` is a shared subscription.
pub fn is_shared(filter: &str) -> bool {
    filter == "$share" || filter.starts_with("$share/")
}

/// Returns whether a valid filter matches a valid topic name. The tree of subscriptions is compared with it.
pub fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        if wanted == "#" {
            return true;
        }
        match levels.next() {
            Some(level) if wanted == "+" || wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_must_fill_a_whole_level() {
        for filter in [
            "a", "/", "a/b", "+", "#", "+/+", "a/+/c", "a/#", "/#", "$SYS/#", "a//b",
        ] {
            assert!(is_valid_filter(filter), "{filter}");
        }
        for filter in ["", "a+", "+a/b", "a/b#", "#/a", "a/#/b", "a\0b", "##", "++"] {
            assert!(!is_valid_filter(filter), "{filter:?}");
        }
        assert!(is_valid_filter(&vec!["a"; MAX_LEVELS].join("/")));
        assert!(!is_valid_filter(&vec!["a"; MAX_LEVELS + 1].join("/")));
    }

    #[test]
    fn topics_have_no_wildcards() {
        assert!(is_valid_topic("a/b") && is_valid_topic("/") && is_valid_topic("$SYS/x"));
        assert!(!is_valid_topic("") && !is_valid_topic("a/+") && !is_valid_topic("#"));
        assert!(!is_valid_topic("a\0"));
    }

    #[test]
    fn a_filter_matches_by_levels() {
        for (filter, topic) in [
            ("a/b", "a/b"),
            ("a/+", "a/b"),
            ("a/#", "a"),
            ("a/#", "a/b/c"),
            ("#", "a/b"),
            ("+/+", "/a"),
            ("a/+", "a/"),
            ("$SYS/#", "$SYS/a"),
        ] {
            assert!(matches(filter, topic), "{filter} {topic}");
        }
        for (filter, topic) in [
            ("a/b", "a"),
            ("a", "a/b"),
            ("a/+", "a"),
            ("+", "/a"),
            ("#", "$SYS/a"),
            ("+/a", "$SYS/a"),
            ("a/#", "ab"),
        ] {
            assert!(!matches(filter, topic), "{filter} {topic}");
        }
    }
}
