//! The VDEL request.
use super::call::{Call, check_value, invalid_argument};
use super::capabilities::permits_conditions;
use super::{Client, Deadline, DelOptions};
use crate::AsBytes;
use crate::error::Error;
use crate::request::OutgoingRequest;
use statestore_protocol::{CommandRef, Hlc, Reply};

/// Result of a VDEL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VdelOutcome {
    /// The key held the value and is deleted.
    Deleted {
        /// Version of the deletion, if the store reported one.
        version: Option<Hlc>,
    },
    /// The key did not exist, so it did not have the version of [`DelOptions::if_version`] either.
    Absent,
    /// The key holds another value, or does not have the version of [`DelOptions::if_version`], and nothing changed.
    Mismatch {
        /// Current version of the key; `None` unless [`DelOptions::if_version`] is set.
        version: Option<Hlc>,
    },
}

impl Client {
    /// Deletes a key if it holds this value.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn vdel(&self, key: impl AsBytes, value: impl AsBytes) -> Result<VdelOutcome, Error> {
        self.vdel_with(key, value, &DelOptions::default()).await
    }

    /// Deletes a key if it holds this value, with options.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn vdel_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if options.if_version.is_some() {
            return Box::pin(self.vdel_if_version(key, value, options)).await;
        }
        self.send_vdel(key, value, options).await
    }

    async fn vdel_if_version(
        &self,
        key: &[u8],
        value: &[u8],
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let if_version = options.if_version;
        let command = CommandRef::Vdel {
            key,
            value,
            if_version,
        };
        self.check_vdel(command, key, value)?;
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let vdel = |timeout, ()| {
            let options = options.clone().timeout(timeout);
            async move { self.send_vdel(key, value, &options).await }
        };
        let permits = permits_conditions(command);
        self.call_if_supported(&deadline, !options.at_once, command, permits, vdel)
            .await
    }

    fn check_vdel(&self, command: CommandRef<'_>, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        check_value(self.shared(), command, value)
    }

    async fn send_vdel(
        &self,
        key: &[u8],
        value: &[u8],
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let command = CommandRef::Vdel {
            key,
            value,
            if_version: options.if_version,
        };
        self.check_vdel(command, key, value)?;
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let request = OutgoingRequest {
            fencing_token: token.as_deref(),
            retry: options.retry,
            may_wait: !options.at_once,
            ignores_fail_fast: options.ignores_fail_fast,
            ..OutgoingRequest::new(command)
        };
        let mut vdel = Call::new(self.shared(), request, options.timeout);
        let response = (&mut vdel).await?;
        match response.reply {
            Reply::Count(0) => Ok(VdelOutcome::Absent),
            Reply::Count(1) => Ok(VdelOutcome::Deleted {
                version: response.version,
            }),
            Reply::NotApplied if vdel.is_if_version() => Ok(match response.version {
                None => VdelOutcome::Absent,
                version => VdelOutcome::Mismatch { version },
            }),
            // The protocol does not define a version here without the condition.
            Reply::NotApplied => Ok(VdelOutcome::Mismatch { version: None }),
            _ => Err(vdel.invalid("the response is not one to VDEL")),
        }
    }
}
