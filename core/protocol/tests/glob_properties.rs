//! Properties of glob patterns, on generated input.
use proptest::{collection::vec, prelude::*};
use statestore_protocol::glob::Glob;

/// Matches a glob by its definition: slow, and evidently correct.
fn naive_match(pattern: &[u8], key: &[u8]) -> bool {
    match (pattern, key) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            naive_match(rest, key) || !key.is_empty() && naive_match(pattern, &key[1..])
        }
        ([b'?', rest @ ..], [_, key @ ..]) => naive_match(rest, key),
        ([b'[', b'!', inside, b']', rest @ ..], [first, key @ ..]) => {
            inside != first && naive_match(rest, key)
        }
        ([b'[', low, b'-', high, b']', rest @ ..], [first, key @ ..]) => {
            (low..=high).contains(&first) && naive_match(rest, key)
        }
        ([own, rest @ ..], [first, key @ ..]) => own == first && naive_match(rest, key),
        _ => false,
    }
}

/// The definition of a pattern of `*`, `?`, `[!a]`, `[a-b]` and literals as a loop that retries only the last star.
fn retrying_match(pattern: &[u8], key: &[u8]) -> bool {
    let (mut at, mut byte) = (0, 0);
    let mut retry = None;
    loop {
        let rest = &pattern[at..];
        let (len, fits): (usize, fn(u8, u8) -> bool) = match rest {
            [] if byte == key.len() => return true,
            [b'*', ..] => {
                at += 1;
                retry = Some((at, byte));
                continue;
            }
            [b'?', ..] => (1, |_, _| true),
            [b'[', b'!', ..] => (4, |_, byte| byte != b'a'),
            _ => (1, |own, byte| own == byte),
        };
        match (rest.first(), key.get(byte), &mut retry) {
            (Some(&own), Some(&found), _) if fits(own, found) => {
                at += len;
                byte += 1;
            }
            (_, _, Some((after, reach))) if *reach < key.len() => {
                *reach += 1;
                (at, byte) = (*after, *reach);
            }
            _ => return false,
        }
    }
}

proptest! {
    #[test]
    fn globs_match_as_their_definition(
        pattern in "(a|b|\\*|\\?|\\[!a\\]|\\[a-b\\]){0,8}", key in "[abc]{0,10}",
    ) {
        let glob = Glob::new(pattern.as_bytes());
        prop_assert_eq!(glob.matches(key.as_bytes()), naive_match(pattern.as_bytes(), key.as_bytes()));
    }

    #[test]
    fn without_prefix_matches_the_rest_of_the_key(
        pattern in "[ab]{0,3}(a|b|\\*|\\?|\\[!a\\]|\\[a-b\\]){0,6}", key in "[abc]{0,10}", bytes in 0..6_usize,
    ) {
        let glob = Glob::new(pattern.as_bytes());
        let compared = &glob.literal_prefix()[..bytes.min(glob.literal_prefix().len())];
        let whole = [compared, key.as_bytes()].concat();
        prop_assert_eq!(glob.clone().without_prefix(bytes).matches(key.as_bytes()), glob.matches(&whole));
    }

    #[test]
    fn globs_with_long_runs_match_as_with_backtracking(
        pattern in "(\\*|[ab?]{1,90}|\\[!a\\]){0,6}", key in "[ab]{0,300}",
    ) {
        let glob = Glob::new(pattern.as_bytes());
        prop_assert_eq!(glob.matches(key.as_bytes()), retrying_match(pattern.as_bytes(), key.as_bytes()));
    }

    #[test]
    fn globs_find_the_runs_that_a_key_was_made_of(
        runs in vec("[ab]{0,80}", 1..6), gaps in vec("[ab]{0,40}", 6), holes in vec(any::<bool>(), 80),
    ) {
        let mut key = runs[0].clone();
        let mut pattern = runs[0].clone();
        for (run, gap) in runs[1..].iter().zip(&gaps) {
            let with_holes = run.chars().zip(&holes).map(|(c, &hole)| if hole { '?' } else { c });
            pattern.push('*');
            pattern.extend(with_holes);
            key.push_str(gap);
            key.push_str(run);
        }
        prop_assert!(Glob::new(pattern.as_bytes()).matches(key.as_bytes()));
    }

    #[test]
    fn every_match_begins_with_the_literal_prefix(
        pattern in "[ab*?\\[\\]!^-]{0,8}", key in "[ab*?\\[\\]!^-]{0,8}",
    ) {
        let glob = Glob::new(pattern.as_bytes());
        if glob.matches(key.as_bytes()) {
            prop_assert!(key.as_bytes().starts_with(glob.literal_prefix()));
        }
    }

    #[test]
    fn a_pattern_made_of_single_byte_classes_matches_only_its_bytes(
        key in vec(any::<u8>().prop_filter("negation", |&byte| byte != b'!'), 0..10), other in vec(any::<u8>(), 0..10),
    ) {
        let pattern: Vec<u8> = key.iter().flat_map(|&byte| [b'[', byte, b']']).collect();
        let glob = Glob::new(&pattern);
        prop_assert!(glob.matches(&key));
        prop_assert_eq!(glob.literal_prefix(), &key);
        prop_assert_eq!(glob.matches(&other), other == key);
    }
}

#[test]
fn matching_takes_a_few_steps_per_byte_of_the_key() {
    const LONGEST: usize = 16_384;
    let half = LONGEST / 2;
    let steps = |pattern: &[u8], key: &[u8]| {
        let mut steps = 0;
        Glob::new(pattern).matches_counted(key, &mut steps);
        steps
    };
    let same = vec![b'a'; LONGEST];
    // Compared at each place, these take 67 million steps.
    for middle in [&b"a"[..], b"?", b"[ab]"] {
        let run = middle.repeat(half / middle.len());
        let pattern = [b"*", &run[..], b"b*"].concat();
        assert!(
            steps(&pattern, &same) < 2_500_000,
            "{}",
            steps(&pattern, &same)
        );
    }
    for pattern in [
        b"*a".repeat(half),
        [b"a*".repeat(half - 1), b"b".to_vec()].concat(),
        b"*aaaaaaab".repeat(1_800),
    ] {
        assert!(
            steps(&pattern, &same) < 40 * LONGEST,
            "{}",
            steps(&pattern, &same)
        );
    }
    assert!(steps(b"*needle*", &same) < 4 * LONGEST);
    assert!(steps(b"x*", &same) < 4, "the first byte decides");
}

#[test]
fn steps_count_keys_positions_and_bytes() {
    for (pattern, key, expected) in [
        // The common prefix of all matches is compared in the first step.
        ("x*", "aaa", 1),
        ("abc", "abc", 1),
        ("a??*", "abc", 3),
        ("*bc", "abc", 3),
        // At two positions the first byte decides; at the third, both match.
        ("*ab*", "xxab", 6),
    ] {
        let mut steps = 0;
        Glob::new(pattern.as_bytes()).matches_counted(key.as_bytes(), &mut steps);
        assert_eq!(steps, expected, "{pattern} {key}");
    }
}

#[test]
fn a_pattern_may_be_one_long_run() {
    for length in [33, 64, 65, 128, 129] {
        let run = vec![b'a'; length];
        let glob = Glob::new(&[b"*", &run[..], b"*"].concat());
        assert!(glob.matches(&run), "{length}");
        assert!(!glob.matches(&run[1..]), "{length}");
        // The part after it begins where it ends.
        let glob = Glob::new(&[b"*", &run[..], b"*a*"].concat());
        assert!(!glob.matches(&[b"x", &run[..]].concat()), "{length}");
        assert!(glob.matches(&[&run[..], b"xa"].concat()), "{length}");
    }
}

#[test]
fn hostile_patterns_end_in_bounded_steps() {
    // Retrying every star, or looking for `]` behind every `[`, would not end within the patience of anyone.
    let stars = Glob::new(&b"*a".repeat(200));
    assert!(!stars.matches(&b"a".repeat(199)));
    assert!(!Glob::new(&[b"a*".repeat(200), b"b".to_vec()].concat()).matches(&b"a".repeat(5_000)));
    let brackets = vec![b'['; 1 << 20];
    assert!(Glob::new(&brackets).matches(&brackets));
}
