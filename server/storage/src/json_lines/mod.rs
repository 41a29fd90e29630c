//! Records as text, for people and other programs: JSON Lines, one object in each line.
//!
//! ```text
//! {"statestore_export":1,"made":"2026-11-22T19:32:04.250Z","records":2,"floor":"001763839924250:00003:StateStore"}
//! {"key":"greeting","value":"hello","version":"001763839924100:00000:StateStore"}
//! {"key":"lease","value_base64":"/wA=","version":"001763839924200:00001:StateStore","expiry":{"at_ms":1763839934200,"ttl_ms":10000},"fence":"001763839924200:00000:client"}
//! ```
//!
//! The first line has the number of records that follow, and the highest version that a deletion was given (`floor`), if there was one. A
//! key or value that is UTF-8 is in `key` or `value`, with JSON's escapes; any other in `key_base64` or `value_base64`. `at_ms` is the time
//! of expiry, in milliseconds since the Unix epoch, and `ttl_ms` the PX of the SET.
mod line;
mod reader;
mod writer;

pub use reader::JsonLinesReader;
pub use writer::write;

/// Version of the format of lines.
pub const FORMAT: u32 = 1;
