use super::{Raw, hlc_error_name, load};
use serde::Deserialize;
use statestore_protocol::{Clock, Hlc, Version, hlc};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    texts: Vec<TextCase>,
    rising: Vec<Raw>,
    versions: Vec<VersionCase>,
    skew: Vec<Skew>,
    clocks: Vec<ClockRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextCase {
    name: String,
    text: Raw,
    decode: Decoded,
    encode: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Decoded {
    Error {
        error: String,
    },
    Hlc {
        wall_ms: Raw,
        counter: Raw,
        node_id: Raw,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionCase {
    name: String,
    now: Raw,
    request: Raw,
    previous: Option<(Raw, Raw)>,
    version: Raw,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skew {
    name: String,
    timestamp: Raw,
    now: Raw,
    ahead_ms: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockRun {
    name: String,
    node_id: Raw,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Tick {
        tick: Raw,
        gives: Raw,
    },
    Merge {
        merge: Raw,
        at: Raw,
        ahead_ms: Option<Raw>,
    },
}

#[test]
fn texts_decode_and_encode() {
    for case in load::<File>("hlc.json").texts {
        let parsed = Hlc::parse(&case.text.0);
        match case.decode {
            Decoded::Error { error } => {
                let name = hlc_error_name(&parsed.unwrap_err());
                assert_eq!(name, error, "{}", case.name);
            }
            Decoded::Hlc {
                wall_ms,
                counter,
                node_id,
            } => {
                let wanted = Hlc::new(wall_ms.number(), counter.number(), node_id.text()).unwrap();
                assert_eq!(parsed, Ok(wanted.clone()), "{}", case.name);
                let text = case.encode.unwrap_or(case.text);
                assert_eq!(wanted.to_string(), text.text(), "{}", case.name);
                let mut written = Vec::new();
                wanted.write_text(&mut written);
                assert_eq!(written, text.0, "{}", case.name);
                assert_eq!(written.len(), wanted.text_len(), "{}", case.name);
            }
        }
    }
}

#[test]
fn texts_rise() {
    let rising: Vec<Hlc> = load::<File>("hlc.json")
        .rising
        .iter()
        .map(Raw::hlc)
        .collect();
    for (index, one) in rising.iter().enumerate() {
        for (other_index, other) in rising.iter().enumerate() {
            assert_eq!(one.cmp(other), index.cmp(&other_index), "{one} and {other}");
        }
    }
}

#[test]
fn a_store_gives_versions() {
    for case in load::<File>("hlc.json").versions {
        let previous = case
            .previous
            .map(|(wall, counter)| (wall.number(), counter.number()));
        let version = hlc::next_version(case.now.number(), &case.request.hlc(), previous);
        assert_eq!(
            Hlc::store_version(version),
            case.version.hlc(),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_version_has_two_numbers() {
    let version = Version::new(1_696_374_425_000, 7);
    assert_eq!(
        (version.wall_ms(), version.counter()),
        (1_696_374_425_000, 7)
    );
}

#[test]
fn a_minute_ahead_is_the_limit() {
    for case in load::<File>("hlc.json").skew {
        let skew = case.timestamp.hlc().check_skew(case.now.number());
        let ahead_ms = skew.err().map(|skew| skew.ahead_ms);
        assert_eq!(
            ahead_ms,
            case.ahead_ms.map(|ms| ms.number()),
            "{}",
            case.name
        );
    }
}

#[test]
fn clocks_tick_and_merge() {
    for case in load::<File>("hlc.json").clocks {
        let mut clock = Clock::new(case.node_id.text()).unwrap();
        for step in case.steps {
            match step {
                Step::Tick { tick, gives } => {
                    assert_eq!(clock.tick(tick.number()), gives.hlc(), "{}", case.name);
                }
                Step::Merge {
                    merge,
                    at,
                    ahead_ms,
                } => {
                    let skew = clock.merge(&merge.hlc(), at.number());
                    let ahead = skew.err().map(|skew| skew.ahead_ms);
                    assert_eq!(ahead, ahead_ms.map(|ms| ms.number()), "{}", case.name);
                }
            }
        }
    }
}

#[test]
fn to_serde_a_timestamp_is_a_text() {
    let hlc = Hlc::new(7, 1, "n").unwrap();
    let json = serde_json::to_string(&hlc).unwrap();
    assert_eq!(json, format!("\"{hlc}\""));
    assert_eq!(serde_json::from_str::<Hlc>(&json).unwrap(), hlc);
    let error = serde_json::from_str::<Hlc>("\"7\"").unwrap_err();
    assert!(error.to_string().contains("three segments"), "{error}");
}
