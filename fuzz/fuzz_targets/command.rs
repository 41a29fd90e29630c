//! A request payload of any bytes: an answer, and the same command again after encoding.
#![no_main]
use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use statestore_protocol::Command;

fuzz_target!(|payload: &[u8]| {
    let Ok(command) = Command::decode(&Bytes::copy_from_slice(payload)) else {
        return;
    };
    let mut out = BytesMut::new();
    command.encode(&mut out);
    assert_eq!(out.len(), command.encoded_len());
    assert_eq!(Command::decode(&out.freeze()), Ok(command));
});
