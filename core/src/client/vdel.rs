//! VDEL.
use super::call::{Call, check_value, invalid_argument};
use super::{Client, DelOptions};
use crate::error::Error;
use crate::request::Outgoing;
use statestore_protocol::{CommandRef, Hlc, Reply};

/// What a VDEL did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VdelOutcome {
    /// The key held the value and is deleted.
    Deleted {
        /// The version of the deletion, if the store gave one.
        version: Option<Hlc>,
    },
    /// The key was not there.
    Absent,
    /// The key holds another value, and nothing changed.
    Mismatch,
}

impl Client {
    /// Deletes a key if it holds this value.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn vdel(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<VdelOutcome, Error> {
        self.vdel_with(key, value, &DelOptions::default()).await
    }

    /// Deletes a key if it holds this value.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn vdel_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let command = CommandRef::Vdel {
            key,
            value,
            if_version: None,
        };
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        check_value(self.shared(), command, value)?;
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let request = Outgoing {
            fencing_token: token.as_deref(),
            retry: options.retry,
            waits: !options.at_once,
            ..Outgoing::new(command)
        };
        let mut vdel = Call::new(self.shared(), request, options.timeout);
        let response = (&mut vdel).await?;
        match response.reply {
            Reply::Count(0) => Ok(VdelOutcome::Absent),
            Reply::Count(1) => Ok(VdelOutcome::Deleted {
                version: response.version,
            }),
            Reply::NotApplied => Ok(VdelOutcome::Mismatch),
            _ => Err(vdel.invalid("the response is not one to VDEL")),
        }
    }
}
