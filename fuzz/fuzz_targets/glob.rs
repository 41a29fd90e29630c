//! A pattern and a key of any bytes: every match begins with the literal prefix, the steps are bounded, and a pattern
//! that stands for itself in classes matches itself.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestore_protocol::glob::Glob;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (pattern, key) = input;
    let glob = Glob::new(pattern);
    let mut steps = 0;
    if glob.matches_counted(key, &mut steps) {
        assert!(key.starts_with(glob.literal_prefix()));
    }
    let words = pattern.len().div_ceil(64);
    assert!(steps <= 2 + 2 * pattern.len() + key.len() * (33 + words));
    let escaped: Vec<u8> = key
        .iter()
        .flat_map(|&byte| match byte {
            b'*' | b'?' | b'[' => vec![b'[', byte, b']'],
            byte => vec![byte],
        })
        .collect();
    let escaped = Glob::new(&escaped);
    assert!(escaped.matches(key));
    assert_eq!(escaped.literal_prefix(), key);
    assert!(Glob::new(b"*").matches(key));
});
