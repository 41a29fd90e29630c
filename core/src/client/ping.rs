//! Measurement of the round trip time.
use super::Client;
use super::call::Call;
use crate::error::Error;
use crate::request::OutgoingRequest;
use statestore_protocol::CommandRef;
use std::time::Duration;
use tokio::time::Instant;

impl Client {
    /// Sends a request that needs no key, and returns the time until the store has answered it. Within the time limit
    /// [`Settings::request_timeout`](crate::Settings::request_timeout).
    ///
    /// The time includes the wait for the connection and for earlier requests in the queue. A store that rejects the request
    /// has answered it too.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn ping(&self) -> Result<Duration, Error> {
        self.ping_within(self.request_timeout()).await
    }

    /// Returns the round trip time as [`ping`](Self::ping) does, within `timeout`.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn ping_within(&self, timeout: Duration) -> Result<Duration, Error> {
        let request = OutgoingRequest::new(CommandRef::Capabilities);
        let began = Instant::now();
        match Call::new(self.shared(), request, Some(timeout)).await {
            Err(error) if error.service_error().is_none() => {
                let reason = error.reason().to_owned();
                Err(error.with_action("pinging the store".to_owned(), reason))
            }
            _ => Ok(began.elapsed()),
        }
    }
}
