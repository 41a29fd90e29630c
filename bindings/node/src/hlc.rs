//! Versions and fencing tokens, which JavaScript has as texts.
use napi::bindgen_prelude::BigInt;
use napi_derive::napi;
use statestore::Hlc;

/// The parts of a version.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct HlcParts {
    pub wall: BigInt,
    pub counter: BigInt,
    pub node: String,
    /// The text that is sent.
    pub text: String,
}

/// Returns the parts of a text; throws a plain error with the reason if the text is invalid.
#[napi]
pub fn parse_hlc(text: String) -> napi::Result<HlcParts> {
    let hlc = read(&text)?;
    Ok(HlcParts {
        wall: hlc.wall_ms().into(),
        counter: hlc.counter().into(),
        node: hlc.node_id().to_owned(),
        text: hlc.to_string(),
    })
}

/// Compares two texts; returns -1, 0 or 1.
#[napi]
pub fn compare_hlc(a: String, b: String) -> napi::Result<i32> {
    Ok(read(&a)?.cmp(&read(&b)?) as i32)
}

fn read(text: &str) -> napi::Result<Hlc> {
    Hlc::parse(text.as_bytes()).map_err(|error| napi::Error::from_reason(error.to_string()))
}
