//! Limits of etcd, and its errors about them: messages that are too large, and a full database.
use etcd_client::Error;

/// Maximum number of operations along a path of nested transactions; etcd accepts 128.
pub(super) const MAX_OPERATIONS: usize = 120;

/// Maximum size of a record in bytes: etcd accepts requests of 1.5 MiB by default.
pub(super) const MAX_RECORD_BYTES: usize = 1_400_000;

fn contains_any(error: &Error, texts: &[&str]) -> bool {
    let Error::GRpcStatus(status) = error else {
        return false;
    };
    texts.iter().any(|text| status.message().contains(text))
}

/// Returns whether etcd has executed nothing of a request because it is too large or has too many operations.
pub(super) fn is_request_too_large(error: &Error) -> bool {
    let of_etcd = ["request is too large", "too many operations"];
    contains_any(error, &of_etcd) || contains_any(error, &["received message larger than max"])
}

/// Returns whether the request, or the answer to it, was too large.
pub(super) fn is_message_too_large(error: &Error) -> bool {
    is_request_too_large(error) || contains_any(error, &["message length too large"])
}

/// Returns whether the database of etcd is full.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("database space exceeded"))
}
