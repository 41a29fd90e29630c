use super::{Raw, load};
use serde::Deserialize;
use statestore_protocol::glob::Glob;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    patterns: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    pattern: Raw,
    literal_prefix: Raw,
    matches: Vec<Raw>,
    differs: Vec<Raw>,
}

#[test]
fn patterns_match_and_differ() {
    for case in load::<File>("glob.json").patterns {
        let pattern = case.pattern;
        let glob = Glob::new(&pattern.0);
        assert_eq!(glob.literal_prefix(), case.literal_prefix.0, "{pattern:?}");
        for key in case.matches {
            assert!(glob.matches(&key.0), "{pattern:?} matches {key:?}");
            assert!(
                key.0.starts_with(glob.literal_prefix()),
                "{pattern:?} {key:?}"
            );
        }
        for key in case.differs {
            assert!(!glob.matches(&key.0), "{pattern:?} does not match {key:?}");
        }
    }
}
