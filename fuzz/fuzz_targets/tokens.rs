//! Sets of keys, texts of users, and tokens, of arbitrary bytes. A token that the key has not signed is rejected.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestored_access::{KeySet, TokenVerifier, Users};
use statestored_common::ClockReading;
use std::sync::{Arc, LazyLock};

/// Public key whose private key was deleted.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"one","use":"sig","alg":"ES256",
"x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

static SIGNED: LazyLock<TokenVerifier> = LazyLock::new(|| tokens(KEYS.as_bytes()).expect("a key"));

fn tokens(keys: &[u8]) -> Option<TokenVerifier> {
    let keys = Arc::new(KeySet::parse(keys).ok()?);
    Some(TokenVerifier::new(keys, "issuer", ["audience".into()], 0))
}

fuzz_target!(|data: &[u8]| {
    let now = ClockReading {
        wall_ms: 1_700_000_000_000,
        mono_ms: 0,
    };
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => assert!(SIGNED.verify(data, now).is_err()),
        1 => {
            if let Some(tokens) = tokens(data) {
                assert!(tokens.verify(b"a.b.c", now).is_err());
            }
        }
        _ => {
            let users = std::str::from_utf8(data).map(Users::parse);
            if let Ok(Ok(users)) = users {
                assert!(!users.is_empty());
            }
        }
    }
});
