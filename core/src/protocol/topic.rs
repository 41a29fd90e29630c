//! Topics of the state store.

/// The GUID that names the state store in all its topics.
pub const STORE_GUID: &str = "FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";
/// Where requests are published.
pub const REQUEST: &str = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";

/// The response topic that our clients use.
pub fn response(client_id: &str) -> String {
    unimplemented!()
}
/// Whether a request with this response topic must be answered with a DISCONNECT.
pub fn is_forbidden_response(topic: &str) -> bool {
    unimplemented!()
}
/// The topic of notifications about `key` to `client_id` (upper-case base 16).
pub fn notification(client_id: &str, key: &[u8]) -> String {
    unimplemented!()
}
/// The filter that matches all notifications to `client_id`.
pub fn notification_filter(client_id: &str) -> String {
    unimplemented!()
}
/// The key of a notification topic of `client_id`; lower-case hex is accepted; `None` if it is not one.
pub fn notification_key(client_id: &str, topic: &str) -> Option<bytes::Bytes> {
    unimplemented!()
}
