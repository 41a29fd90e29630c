//! Files of keys and users, and tokens, of arbitrary bytes. A token that the key has not signed is rejected.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestored_access::{TokenVerifier, Users};
use statestored_common::ClockReading;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Public key whose private key was deleted.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"one","use":"sig","alg":"ES256",
"x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

static SIGNED: LazyLock<TokenVerifier> = LazyLock::new(|| {
    // Time stands still, so the file is not looked at again.
    let folder = TempDir::new().expect("a folder");
    tokens(folder.path(), KEYS.as_bytes()).expect("a key")
});

fn tokens(folder: &Path, keys: &[u8]) -> Option<TokenVerifier> {
    let path = folder.join("keys.json");
    fs::write(&path, keys).expect("a file");
    TokenVerifier::new(&path, "issuer", ["audience".into()], 0).ok()
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
            let folder = TempDir::new().expect("a folder");
            if let Some(tokens) = tokens(folder.path(), data) {
                assert!(tokens.verify(b"a.b.c", now).is_err());
            }
        }
        _ => {
            let folder = TempDir::new().expect("a folder");
            let path = folder.path().join("users");
            fs::write(&path, data).expect("a file");
            if let Ok(users) = Users::read(&path) {
                assert!(!users.is_empty());
            }
        }
    }
});
