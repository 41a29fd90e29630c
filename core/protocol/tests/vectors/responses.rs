use super::{Pairs, Raw, hlc_error_name, load};
use serde::Deserialize;
use statestore_protocol::property::{ResponseProperties, RpcError, response_pairs};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    properties_read_by_a_client: Vec<Read>,
    properties_sent_by_a_server: Vec<Sent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    name: String,
    properties: Pairs,
    decode: Decoded,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Decoded {
    Error {
        error: WantedError,
    },
    Good {
        version: Option<Raw>,
        version_error: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedError {
    status: Option<u16>,
    message: String,
    property_name: Option<String>,
    property_value: Option<String>,
    application_error: bool,
    supported_versions: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    name: String,
    version: Option<Raw>,
    encode: Pairs,
}

#[test]
fn a_client_reads_response_properties() {
    for case in load::<File>("responses.json").properties_read_by_a_client {
        let read = ResponseProperties::parse(case.properties.iter());
        match case.decode {
            Decoded::Error { error } => {
                let wanted = RpcError {
                    status: error.status,
                    message: error.message,
                    property_name: error.property_name,
                    property_value: error.property_value,
                    application_error: error.application_error,
                    supported_versions: error.supported_versions,
                };
                assert_eq!(read, Err(wanted), "{}", case.name);
            }
            Decoded::Good {
                version,
                version_error,
            } => {
                let read = read.unwrap();
                let text = read.version.map(|version| version.to_string());
                assert_eq!(
                    text.as_deref(),
                    version.as_ref().map(Raw::text),
                    "{}",
                    case.name
                );
                let error = read.version_error.as_ref().map(hlc_error_name);
                assert_eq!(error, version_error.as_deref(), "{}", case.name);
            }
        }
    }
}

#[test]
fn a_server_sends_response_properties_in_their_order() {
    for case in load::<File>("responses.json").properties_sent_by_a_server {
        let version = case.version.as_ref().map(Raw::text);
        let sent: Vec<(&str, &str)> = response_pairs(version).collect();
        assert_eq!(
            sent,
            case.encode.iter().collect::<Vec<_>>(),
            "{}",
            case.name
        );
    }
}
