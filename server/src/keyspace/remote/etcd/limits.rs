//! Errors of etcd about messages that are too large.
use etcd_client::Error;

fn says(error: &Error, texts: &[&str]) -> bool {
    let Error::GRpcStatus(status) = error else {
        return false;
    };
    texts.iter().any(|text| status.message().contains(text))
}

/// Returns whether etcd has executed nothing of a request because it is too large or has too many operations.
pub(super) fn is_refused_as_too_much(error: &Error) -> bool {
    let of_etcd = ["request is too large", "too many operations"];
    says(error, &of_etcd) || says(error, &["received message larger than max"])
}

/// Returns whether the request, or the answer to it, was too large.
pub(super) fn says_too_much(error: &Error) -> bool {
    is_refused_as_too_much(error) || says(error, &["message length too large"])
}
