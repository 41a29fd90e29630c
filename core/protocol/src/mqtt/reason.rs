//! Reason codes (MQTT 5, section 2.4).
use std::fmt;

/// A reason code. Codes that the specification does not name are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReasonCode(pub u8);

macro_rules! reason_codes {
    ($($constant:ident = $code:literal, $name:literal;)*) => {
        impl ReasonCode {
            $(
                #[doc = concat!("`", stringify!($code), "`: ", $name, ".")]
                pub const $constant: Self = Self($code);
            )*
            /// Returns the specification's name in lower case, or `unknown reason`.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => $name,)*
                    _ => "unknown reason",
                }
            }
        }
    };
}

reason_codes! {
    SUCCESS = 0x00, "success";
    GRANTED_QOS_1 = 0x01, "granted QoS 1";
    GRANTED_QOS_2 = 0x02, "granted QoS 2";
    DISCONNECT_WITH_WILL = 0x04, "disconnect with will message";
    NO_MATCHING_SUBSCRIBERS = 0x10, "no matching subscribers";
    NO_SUBSCRIPTION_EXISTED = 0x11, "no subscription existed";
    CONTINUE_AUTHENTICATION = 0x18, "continue authentication";
    REAUTHENTICATE = 0x19, "re-authenticate";
    UNSPECIFIED_ERROR = 0x80, "unspecified error";
    MALFORMED_PACKET = 0x81, "malformed packet";
    PROTOCOL_ERROR = 0x82, "protocol error";
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83, "implementation specific error";
    UNSUPPORTED_PROTOCOL_VERSION = 0x84, "unsupported protocol version";
    CLIENT_IDENTIFIER_NOT_VALID = 0x85, "client identifier not valid";
    BAD_USER_NAME_OR_PASSWORD = 0x86, "bad user name or password";
    NOT_AUTHORIZED = 0x87, "not authorized";
    SERVER_UNAVAILABLE = 0x88, "server unavailable";
    SERVER_BUSY = 0x89, "server busy";
    BANNED = 0x8A, "banned";
    SERVER_SHUTTING_DOWN = 0x8B, "server shutting down";
    BAD_AUTHENTICATION_METHOD = 0x8C, "bad authentication method";
    KEEP_ALIVE_TIMEOUT = 0x8D, "keep alive timeout";
    SESSION_TAKEN_OVER = 0x8E, "session taken over";
    TOPIC_FILTER_INVALID = 0x8F, "topic filter invalid";
    TOPIC_NAME_INVALID = 0x90, "topic name invalid";
    PACKET_IDENTIFIER_IN_USE = 0x91, "packet identifier in use";
    PACKET_IDENTIFIER_NOT_FOUND = 0x92, "packet identifier not found";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "receive maximum exceeded";
    TOPIC_ALIAS_INVALID = 0x94, "topic alias invalid";
    PACKET_TOO_LARGE = 0x95, "packet too large";
    MESSAGE_RATE_TOO_HIGH = 0x96, "message rate too high";
    QUOTA_EXCEEDED = 0x97, "quota exceeded";
    ADMINISTRATIVE_ACTION = 0x98, "administrative action";
    PAYLOAD_FORMAT_INVALID = 0x99, "payload format invalid";
    RETAIN_NOT_SUPPORTED = 0x9A, "retain not supported";
    QOS_NOT_SUPPORTED = 0x9B, "QoS not supported";
    USE_ANOTHER_SERVER = 0x9C, "use another server";
    SERVER_MOVED = 0x9D, "server moved";
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E, "shared subscriptions not supported";
    CONNECTION_RATE_EXCEEDED = 0x9F, "connection rate exceeded";
    MAXIMUM_CONNECT_TIME = 0xA0, "maximum connect time";
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1, "subscription identifiers not supported";
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2, "wildcard subscriptions not supported";
}

impl ReasonCode {
    /// Returns whether the code reports a failure: 0x80 and above.
    pub const fn is_failure(self) -> bool {
        self.0 >= 0x80
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:02X})", self.name(), self.0)
    }
}

impl fmt::Debug for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
