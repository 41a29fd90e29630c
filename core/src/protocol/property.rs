//! MQTT 5 user properties of requests and responses.
use super::{Hlc, ServiceError};

/// HLC timestamp: of the request, or the version in a response or notification.
pub const TIMESTAMP: &str = "__ts";
/// Fencing token.
pub const FENCING_TOKEN: &str = "__ft";
/// Client id of the requester.
pub const SOURCE_ID: &str = "__srcId";
/// Protocol version.
pub const PROTOCOL_VERSION: &str = "__protVer";
/// The one protocol version there is.
pub const PROTOCOL_VERSION_VALUE: &str = "1.0";
/// Partition key; sent by clients, ignored by servers.
pub const PARTITION: &str = "$partition";
/// Asks that the key be persisted to disk.
pub const PERSIST: &str = "aio-persistence";
/// RPC status of a response.
pub const STATUS: &str = "__stat";
/// Human-readable text of an RPC error.
pub const STATUS_MESSAGE: &str = "__stMsg";
/// Content type of every payload.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// What a server reads from a request's user properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestProperties {
    /// `__ts`; absent, or an HLC, or text that is not one.
    pub timestamp: Option<Result<Hlc, super::HlcError>>,
    /// `__ft`; absent, or an HLC, or text that is not one.
    pub fencing_token: Option<Result<Hlc, super::HlcError>>,
    /// `aio-persistence: true`.
    pub persist: bool,
}

impl RequestProperties {
    /// Reads them; unknown names are ignored, the first of a repeated name counts.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        unimplemented!()
    }
}

/// What a client reads from a response's user properties: the version of a good response,
/// or the error of the RPC layer (`__stat` other than 200, or none).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseProperties {
    /// `__ts`.
    pub version: Option<Hlc>,
}

/// A response that says that the RPC itself failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("RPC status {status:?}: {message}")]
pub struct RpcError {
    /// `__stat`, if it was a number.
    pub status: Option<u16>,
    /// `__stMsg`, or a text of ours.
    pub message: String,
    /// `__propName`, if any.
    pub property_name: Option<String>,
    /// `__propVal`, if any.
    pub property_value: Option<String>,
    /// `__apErr` is `true`: the executing application failed, not the protocol layer.
    pub application_error: bool,
}

impl ResponseProperties {
    /// Reads them.
    pub fn parse<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, RpcError> {
        unimplemented!()
    }
}
