//! What etcd says of messages that are too large.
use etcd_client::Error;

fn says(error: &Error, texts: &[&str]) -> bool {
    let Error::GRpcStatus(status) = error else {
        return false;
    };
    texts.iter().any(|text| status.message().contains(text))
}

/// Whether etcd does nothing of what it was asked, since that is too large or has too many operations.
pub(super) fn is_refused_as_too_much(error: &Error) -> bool {
    let of_etcd = ["request is too large", "too many operations"];
    says(error, &of_etcd) || says(error, &["received message larger than max"])
}

/// Whether that is so, or the answer to what it did was too large to be read.
pub(super) fn says_too_much(error: &Error) -> bool {
    is_refused_as_too_much(error) || says(error, &["message length too large"])
}
