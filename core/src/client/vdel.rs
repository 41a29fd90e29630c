//! VDEL.
use super::call::{Call, invalid_argument};
use super::{Client, DelOptions};
use crate::error::Error;
use crate::protocol::{CommandRef, Hlc, Reply};
use crate::request::Outgoing;

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
    pub async fn vdel(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<VdelOutcome, Error> {
        self.vdel_with(key, value, &DelOptions::default()).await
    }

    /// Deletes a key if it holds this value.
    pub async fn vdel_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let command = CommandRef::Vdel {
            key: key.as_ref(),
            value: value.as_ref(),
        };
        if key.as_ref().is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let request = Outgoing {
            command,
            fencing_token: token.as_deref(),
            persist: false,
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
