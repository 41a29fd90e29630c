//! Calls of a client that read or renew one key without its value, and the round trip to the store.
use crate::client::NativeClient;
use crate::operation_table::BeginResult;
use crate::options::{self, UpdateInput};
use crate::reply::Reply;
use bytes::Bytes;
use napi_derive::napi;

#[napi]
impl NativeClient {
    #[napi]
    pub fn exists(&self, key: &[u8], timeout: Option<f64>, eventual: Option<bool>) -> BeginResult {
        let options = options::get(timeout, false, eventual.unwrap_or_default());
        let client = &self.operations.client;
        let exists = client.exists(Bytes::copy_from_slice(key), options);
        self.operations.submit("getting", exists, Reply::Flag)
    }

    #[napi]
    pub fn ttl(&self, key: &[u8], timeout: Option<f64>, eventual: Option<bool>) -> BeginResult {
        let options = options::get(timeout, false, eventual.unwrap_or_default());
        let client = &self.operations.client;
        let ttl = client.ttl(Bytes::copy_from_slice(key), options);
        self.operations.submit("getting", ttl, Reply::TimeLeft)
    }

    #[napi]
    pub fn touch(&self, key: &[u8], expires_in: f64, options: Option<UpdateInput>) -> BeginResult {
        let (expires_in, options) = (options::time(expires_in), options::update(options));
        let client = &self.operations.client;
        let touch = client.touch(Bytes::copy_from_slice(key), expires_in, options);
        self.operations.submit("touching", touch, Reply::Flag)
    }

    #[napi]
    pub fn ping(&self, timeout: Option<f64>) -> BeginResult {
        let ping = self.operations.client.ping(timeout.map(options::time));
        self.operations
            .submit("pinging the store", ping, Reply::Elapsed)
    }
}
