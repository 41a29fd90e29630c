//! A pattern and a key of any bytes: every match begins with the literal prefix, and a pattern that stands for itself
//! in classes matches itself.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestore::protocol::glob::Glob;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (pattern, key) = input;
    let glob = Glob::new(pattern);
    if glob.matches(key) {
        assert!(key.starts_with(glob.literal_prefix()));
    }
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
