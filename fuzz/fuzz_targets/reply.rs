//! A response payload of any bytes: a reply or a reason, and the same reply again after encoding.
#![no_main]
use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use statestore_protocol::Reply;

fuzz_target!(|payload: &[u8]| {
    match Reply::decode(&Bytes::copy_from_slice(payload)) {
        Ok(reply) => {
            let mut out = BytesMut::new();
            reply.encode(&mut out);
            assert_eq!(out.len(), reply.encoded_len());
            assert_eq!(Reply::decode(&out.freeze()), Ok(reply));
        }
        Err(error) => assert!(!error.reason.is_empty()),
    }
});
