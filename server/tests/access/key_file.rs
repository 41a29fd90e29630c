//! A file of the keys of tokens that is not there as it should be.
use crate::login::{log_in, with_token, world};
use crate::signer::{KeyFileFixture, Signer, claims};
use crate::world::START_WALL_MS;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use statestore_protocol::mqtt::ReasonCode;
use statestored::access_files::KeyFile;
use statestored_access::Authenticator;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_stalled_key_file_does_not_block_logins() {
    let (told, answers) = channel();
    std::thread::spawn(move || {
        let signer = Signer::new("key");
        let keys = KeyFileFixture::with_signers(&[&signer]);
        let mut world = world(Authenticator::anonymous().with_tokens(keys.tokens()));
        // Something that never gives anything, like a file of a server that is away.
        std::fs::remove_file(keys.path()).unwrap();
        mknodat(CWD, keys.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let token = signer.token(&claims(START_WALL_MS, 3600));
        for client in ["first", "second", "third"] {
            world.advance(1000);
            let (_, connack) = log_in(&mut world, &with_token(client, &token));
            let _ = told.send(connack.reason);
        }
    });
    let answers = std::iter::from_fn(|| answers.recv_timeout(Duration::from_secs(20)).ok());
    assert_eq!(answers.collect::<Vec<_>>(), [ReasonCode::SUCCESS; 3]);
}

#[test]
fn an_unusable_key_file_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let path = file.display();
    let error = KeyFile::read(&file).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot read {path}: ")),
        "{error}"
    );
    std::fs::write(&file, "{}").unwrap();
    let error = KeyFile::read(&file).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{path}: it is not a JSON Web Key Set: ")),
        "{error}"
    );
    std::fs::write(&file, " ".repeat(1024 * 1024 + 1)).unwrap();
    let error = KeyFile::read(&file).unwrap_err().to_string();
    assert!(error.contains("larger than a mebibyte"), "{error}");
}
