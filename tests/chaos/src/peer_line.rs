//! The commands to a client, a line of words each, and its answers, a line of JSON each.
//!
//! Every line to a client is `ID VERB CLIENT ARGUMENT...`, with a space between words; CLIENT is the number of a connection
//! within the process:
//!
//! | verb | arguments | told |
//! |---|---|---|
//! | `connect` | URL, file of the authority or `-` | `connected` |
//! | `close` | | `closed` |
//! | `get` | key | `entry`, `none` |
//! | `set` | key, value, condition: `always`, `if_absent`, `if_absent_or_equal`, `=VERSION` | `applied`, `not_applied` |
//! | `del` | key | `deleted`, `absent` |
//! | `vdel` | key, value | `deleted`, `absent`, `mismatch` |
//! | `count` | key with a number that is incremented | `applied` |
//! | `hold` | name, milliseconds of the lease, to wait, to hold | `held` |
//! | `observe` | key | `observing`; then lines with `observes` instead of `id` |
//! | `forget` | ID of the `observe` | `closed` |
//!
//! Any failure is answered with `error`. Times are nanoseconds of the clock that all processes share.
use serde::Deserialize;
use statestore::Hlc;

/// An answer, or a line of an observer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerLine {
    /// The call that is answered.
    pub id: Option<u64>,
    /// The `observe` that this line belongs to.
    pub observes: Option<u64>,
    /// Start of the call.
    #[serde(default)]
    pub from: u64,
    /// End of the call.
    #[serde(default)]
    pub to: u64,
    /// Word for the result.
    pub told: String,
    /// A value.
    pub value: Option<String>,
    /// A version.
    pub version: Option<String>,
    /// The fencing token of a lock.
    pub token: Option<String>,
    /// Time at which the client acquired the lock.
    pub held_from: Option<u64>,
    /// Time of the last check at which the client still held the lock.
    pub held_until: Option<u64>,
    /// The kind of an error.
    pub kind: Option<String>,
    /// Outcome of an error: `not_done` or `unknown`.
    pub outcome: Option<String>,
    /// Text of an error.
    pub text: Option<String>,
}

impl PeerLine {
    /// Returns the version, if there is one.
    pub fn version(&self) -> Option<Hlc> {
        let version = self.version.as_ref()?;
        Some(Hlc::parse(version.as_bytes()).expect("a version"))
    }

    /// Returns the value as a number.
    pub fn number(&self) -> Option<u64> {
        self.value.as_ref()?.parse().ok()
    }

    /// Whether the call certainly had no effect.
    pub fn is_not_done(&self) -> bool {
        self.told == "error" && self.outcome.as_deref() == Some("not_done")
    }

    /// Whether the outcome is unknown.
    pub fn is_unknown(&self) -> bool {
        self.told == "error" && !self.is_not_done()
    }
}
