use super::{Raw, load};
use bytes::BytesMut;
use serde::Deserialize;
use statestore_protocol::{Reply, ServiceError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    service_errors: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    text: Raw,
    encode: Raw,
    accept: Vec<Raw>,
}

/// The error that the vectors call `name`.
pub(super) fn named(name: &str, text: &Raw) -> ServiceError {
    match name {
        "timestamp_skew" => ServiceError::TimestampSkew,
        "fencing_token_required" => ServiceError::FencingTokenRequired,
        "fencing_token_skew" => ServiceError::FencingTokenSkew,
        "fencing_token_lower" => ServiceError::FencingTokenLower,
        "quota_exceeded" => ServiceError::QuotaExceeded,
        "syntax" => ServiceError::Syntax,
        "not_authorized" => ServiceError::NotAuthorized,
        "unknown_command" => ServiceError::UnknownCommand,
        "wrong_arguments" => ServiceError::WrongArguments,
        "missing_timestamp" => ServiceError::MissingTimestamp,
        "malformed_timestamp" => ServiceError::MalformedTimestamp,
        "empty_key" => ServiceError::EmptyKey,
        "other" => ServiceError::Other(text.0.clone()),
        other => panic!("no error is called {other:?}"),
    }
}

#[test]
fn every_text_has_one_sent_form_and_its_accepted_ones() {
    let rows = load::<File>("errors.json").service_errors;
    assert_eq!(rows.len(), 12);
    for row in rows {
        let error = named(&row.name, &row.text);
        assert_eq!(error.to_string(), row.text.text());
        assert_eq!(error.text(), row.text.0);

        let mut out = BytesMut::new();
        error.encode(&mut out);
        assert_eq!(out, row.encode.0);
        assert_eq!(out.len(), error.encoded_len());

        assert!(row.accept.contains(&row.encode), "{}", row.name);
        for form in row.accept {
            assert_eq!(
                Reply::decode(&form.0),
                Ok(Reply::Error(error.clone())),
                "{form:?}"
            );
        }
    }
}
