//! A file of the keys of tokens that is not there as it should be.
use crate::login::{log_in, with_token, world};
use crate::signer::{KeyFileFixture, Signer, claims};
use crate::world::START_WALL_MS;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use statestore_protocol::mqtt::ReasonCode;
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
