//! MQTT 5 user properties of requests and responses.
use super::mqtt::{EncodeError, EncodedProperties, PublishHeader};
use super::{Hlc, HlcError, decimal};

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
/// The value of [`PERSIST`] that asks for it.
pub const PERSIST_VALUE: &str = "true";
/// User property that asks the broker to bypass back-pressure; a server that does not know it ignores it.
pub const HIGH_PRIORITY: &str = "$high_priority";
/// RPC status of a response.
pub const STATUS: &str = "__stat";
/// The status of every response that carries a [`Reply`](super::Reply), `-ERR` included.
pub const STATUS_OK: &str = "200";
/// [`STATUS_OK`] as a number.
const OK: u16 = 200;
/// Human-readable text of an RPC error.
pub const STATUS_MESSAGE: &str = "__stMsg";
/// Name of the property that an RPC error is about.
pub const INVALID_NAME: &str = "__propName";
/// Value of the property that an RPC error is about.
pub const INVALID_VALUE: &str = "__propVal";
/// `true` if the application behind the RPC layer failed.
pub const APPLICATION_ERROR: &str = "__apErr";
/// The major protocol versions that the peer supports, separated by spaces; present with status 505.
pub const SUPPORTED_VERSIONS: &str = "__supProtMajVer";
/// Content type of every payload.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// Returns the user properties that are the same in all requests of a client: `__srcId`, `__protVer`, `$partition`.
pub fn client_pairs(client_id: &str) -> [(&str, &str); 3] {
    [
        (SOURCE_ID, client_id),
        (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
        (PARTITION, client_id),
    ]
}

/// How many [`RequestPairs`] there are at most.
pub const MAX_REQUEST_PAIRS: usize = 3;

/// User properties that a client sends with a request, as texts.
///
/// ```
/// use statestore_protocol::property::RequestPairs;
///
/// let pairs = RequestPairs { timestamp: "1:0:me", fencing_token: None, persist: true };
/// assert_eq!(pairs.iter().collect::<Vec<_>>(), [("__ts", "1:0:me"), ("aio-persistence", "true")]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPairs<'a> {
    /// `__ts`, the text form of an [`Hlc`].
    pub timestamp: &'a str,
    /// `__ft`, the text form of an [`Hlc`].
    pub fencing_token: Option<&'a str>,
    /// `aio-persistence: true`.
    pub persist: bool,
}

impl<'a> RequestPairs<'a> {
    /// Returns the user properties that follow the [`client_pairs`], in the order in which they are sent: `__ts`, `__ft`,
    /// `aio-persistence`. The last two are present only if requested.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let persist = self.persist.then_some(PERSIST_VALUE);
        let all: [_; MAX_REQUEST_PAIRS] = [
            (TIMESTAMP, Some(self.timestamp)),
            (FENCING_TOKEN, self.fencing_token),
            (PERSIST, persist),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Returns the user properties that a server sends with a response, in their order: `__stat`, `__protVer`, and `__ts` if the
/// response has a version.
pub fn response_pairs(version: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    [
        (STATUS, Some(STATUS_OK)),
        (PROTOCOL_VERSION, Some(PROTOCOL_VERSION_VALUE)),
        (TIMESTAMP, version),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

/// [`TIMESTAMP`] of a response, encoded in the same memory each time.
#[derive(Debug, Clone)]
pub struct EncodedTimestamp(EncodedProperties);

impl Default for EncodedTimestamp {
    fn default() -> Self {
        let header = PublishHeader {
            user_properties: &[(TIMESTAMP, "")],
            ..PublishHeader::default()
        };
        Self(EncodedProperties::new(&header).expect("constants of a few bytes"))
    }
}

impl EncodedTimestamp {
    /// Encodes the property with the text of this timestamp.
    ///
    /// # Errors
    /// The node id is too long for a property.
    pub fn encode(&mut self, timestamp: &Hlc) -> Result<&EncodedProperties, EncodeError> {
        if !timestamp.rewrite_numbers(self.0.last_value_mut()) {
            let write = |out: &mut Vec<u8>| timestamp.write_text(out);
            self.0.rewrite_last_value("a timestamp", write)?;
        }
        Ok(&self.0)
    }
}

/// User properties of a request that a server reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestProperties {
    /// `__ts`; absent, or an HLC, or text that is not one.
    pub timestamp: Option<Result<Hlc, HlcError>>,
    /// `__ft`; absent, or an HLC, or text that is not one.
    pub fencing_token: Option<Result<Hlc, HlcError>>,
    /// `aio-persistence: true`.
    pub persist: bool,
}

impl RequestProperties {
    /// Reads them; unknown names are ignored, the first of a repeated name counts.
    ///
    /// ```
    /// use statestore_protocol::{HlcError, property::RequestProperties};
    ///
    /// let read = RequestProperties::parse([("__ts", "7"), ("aio-persistence", "true")]);
    /// assert_eq!(read.timestamp, Some(Err(HlcError::Segments)));
    /// assert_eq!(read.fencing_token, None);
    /// assert!(read.persist);
    /// ```
    pub fn parse<'a, T: AsRef<[u8]> + ?Sized + 'a>(
        pairs: impl IntoIterator<Item = (&'a T, &'a T)>,
    ) -> Self {
        let bytes = |(name, value): (&'a T, &'a T)| (name.as_ref(), value.as_ref());
        Self::parse_with_hint(pairs.into_iter().map(bytes), None)
    }

    /// Returns whether the property of this name is one of them.
    pub(super) fn is_known(name: &[u8]) -> bool {
        [TIMESTAMP, FENCING_TOKEN, PERSIST]
            .iter()
            .any(|read| read.as_bytes() == name)
    }

    /// Parses like [`parse`](Self::parse), and is faster if `__ts` comes from the same node as `previous`.
    #[inline]
    pub(super) fn parse_with_hint<'a>(
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        previous: Option<&Hlc>,
    ) -> Self {
        let (mut timestamp, mut fencing_token, mut persist) = (None, None, None);
        for (name, value) in pairs {
            if name == TIMESTAMP.as_bytes() {
                timestamp.get_or_insert_with(|| Hlc::parse_with_hint(value, previous));
            } else if name == FENCING_TOKEN.as_bytes() {
                fencing_token.get_or_insert_with(|| Hlc::parse(value));
            } else if name == PERSIST.as_bytes() {
                persist.get_or_insert(value == PERSIST_VALUE.as_bytes());
            }
        }
        Self {
            timestamp,
            fencing_token,
            persist: persist.unwrap_or(false),
        }
    }
}

/// User properties of a response that a client reads: the version of a successful response, or the error of the RPC
/// layer (`__stat` other than 200, or none).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseProperties {
    /// `__ts`.
    pub version: Option<Hlc>,
    /// Error for a `__ts` that is not an HLC, so that there is no version. The request itself was executed.
    pub version_error: Option<HlcError>,
}

/// A response that reports a failure of the RPC itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("RPC status {}: {message}", .status.map_or_else(|| "missing".to_owned(), |status| status.to_string()))]
pub struct RpcError {
    /// `__stat`, if it was a number.
    pub status: Option<u16>,
    /// `__stMsg`, or a text of this library.
    pub message: String,
    /// `__propName`, if any.
    pub property_name: Option<String>,
    /// `__propVal`, if any.
    pub property_value: Option<String>,
    /// `__apErr` is `true`: the executing application failed, not the protocol layer.
    pub application_error: bool,
    /// `__supProtMajVer`, if any.
    pub supported_versions: Option<String>,
}

impl ResponseProperties {
    /// Reads them; unknown names are ignored, the first of a repeated name counts.
    ///
    /// ```
    /// use statestore_protocol::property::ResponseProperties;
    ///
    /// let good = ResponseProperties::parse([("__stat", "200"), ("__ts", "7:0:StateStore")])?;
    /// assert_eq!(good.version.map(|version| version.wall_ms()), Some(7));
    ///
    /// let bad = ResponseProperties::parse([("__stat", "503"), ("__stMsg", "busy")]).unwrap_err();
    /// assert_eq!((bad.status, bad.message.as_str()), (Some(503), "busy"));
    /// # Ok::<(), statestore_protocol::property::RpcError>(())
    /// ```
    pub fn parse<'a, T: AsRef<[u8]> + ?Sized + 'a>(
        pairs: impl IntoIterator<Item = (&'a T, &'a T)>,
    ) -> Result<Self, RpcError> {
        let mut received = RawResponseProperties::default();
        for (name, value) in pairs {
            let (name, value) = (name.as_ref(), value.as_ref());
            // All that a good response has.
            if name == STATUS.as_bytes() {
                received.status.get_or_insert(value);
            } else if name == TIMESTAMP.as_bytes() {
                received.timestamp.get_or_insert(value);
            } else if name != PROTOCOL_VERSION.as_bytes()
                && let Some(place) = received.slot(name)
            {
                place.get_or_insert(value);
            }
        }
        let status = received.status.and_then(decimal::parse);
        let status = status.and_then(|number| u16::try_from(number).ok());
        if status != Some(OK) {
            return Err(received.into_error(status));
        }
        let version = received.timestamp.map(Hlc::parse);
        let (version, version_error) = match version.transpose() {
            Ok(version) => (version, None),
            Err(error) => (None, Some(error)),
        };
        Ok(Self {
            version,
            version_error,
        })
    }
}

/// The texts of a response's properties.
#[derive(Default)]
struct RawResponseProperties<'a> {
    timestamp: Option<&'a [u8]>,
    status: Option<&'a [u8]>,
    message: Option<&'a [u8]>,
    property_name: Option<&'a [u8]>,
    property_value: Option<&'a [u8]>,
    application_error: Option<&'a [u8]>,
    supported_versions: Option<&'a [u8]>,
}

impl<'a> RawResponseProperties<'a> {
    /// Returns the slot for a property that only an error response has.
    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<&'a [u8]>> {
        let places = [
            (STATUS_MESSAGE, &mut self.message),
            (INVALID_NAME, &mut self.property_name),
            (INVALID_VALUE, &mut self.property_value),
            (APPLICATION_ERROR, &mut self.application_error),
            (SUPPORTED_VERSIONS, &mut self.supported_versions),
        ];
        let found = places
            .into_iter()
            .find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, place)| place)
    }

    fn into_error(self, status: Option<u16>) -> RpcError {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let message = self.message.filter(|message| !message.is_empty()).map(text);
        let message = match (self.status.map(text), status, message) {
            (None, _, None) => "the response has no `__stat`".to_owned(),
            (None, _, Some(message)) => format!("the response has no `__stat`; it says: {message}"),
            (Some(text), None, None) => format!("`__stat` is not a status code: {text:?}"),
            (Some(text), None, Some(message)) => {
                format!("`__stat` is not a status code: {text:?}; it says: {message}")
            }
            (Some(_), Some(_), Some(message)) => message,
            (Some(_), Some(code), None) => status_text(code).to_owned(),
        };
        RpcError {
            status,
            message,
            property_name: self.property_name.map(text),
            property_value: self.property_value.map(text),
            application_error: self.application_error == Some(b"true"),
            supported_versions: self.supported_versions.map(text),
        }
    }
}

/// Returns a description of a status that came without a text.
fn status_text(status: u16) -> &'static str {
    match status {
        400 => "a property of the request is missing or invalid",
        408 => "the store did not finish in time",
        415 => "the store does not support the content type",
        500 => "the store failed",
        503 => "the store is not available",
        505 => "the store does not support the protocol version",
        _ => "the store gave no reason",
    }
}
