//! The header of a backup, which names its format.
use super::FORMAT;
use statestore_protocol::Hlc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TITLE: &str = "statestore backup";

/// Header of a backup, in lines of text:
///
/// ```text
/// statestore backup
/// format 1
/// made 2026-11-22T19:32:04.250Z
/// records 1000000
/// highest 001763839924250:00003:StateStore
/// salt 9f3c0d4e1b2a7788
/// checksum 1c291ca3
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Time when the backup was begun, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Number of records.
    pub records: u64,
    /// Highest version (wall clock, counter) in the backup, of a record or a deletion; zeros if there is none.
    pub highest: (u64, u64),
    /// The [seed](crate::Storage::seed) of the store, which is also the salt of the frames.
    pub salt: u64,
}

/// Reason why bytes are no valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// The file is no backup.
    NotABackup,
    /// A later version of this program wrote the backup.
    Newer(u32),
    /// The content does not match its checksum.
    Damaged,
}

impl Header {
    /// Maximum length of a header.
    pub(super) const MAX_BYTES: u64 = 512;
    /// Prefix of the last line.
    pub(super) const LAST_LINE: &str = "checksum ";

    pub(super) fn to_text(self) -> String {
        let Self {
            created_ms: made_ms,
            records,
            highest,
            salt,
        } = self;
        let made = format_time(made_ms);
        let highest = Hlc::store_version(highest);
        let text = format!(
            "{TITLE}\nformat {FORMAT}\nmade {made}\nrecords {records}\nhighest {highest}\nsalt {salt:016x}\n"
        );
        let checksum = crc32fast::hash(text.as_bytes());
        format!("{text}{}{checksum:08x}\n", Self::LAST_LINE)
    }

    /// Returns the current time in milliseconds since the Unix epoch.
    pub(super) fn now_ms() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let text = std::str::from_utf8(bytes).map_err(|_| HeaderError::NotABackup)?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(HeaderError::NotABackup);
        }
        let format = lines.next().and_then(|line| line.strip_prefix("format "));
        match format.and_then(|format| format.parse().ok()) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(HeaderError::Newer(newer)),
            _ => return Err(HeaderError::Damaged),
        }
        let header = Self::parse_fields(lines).filter(|header| header.to_text() == text);
        header.ok_or(HeaderError::Damaged)
    }

    fn parse_fields<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut field = |name: &str| lines.next()?.strip_prefix(name);
        let made = humantime::parse_rfc3339(field("made ")?).ok()?;
        let made = made.duration_since(UNIX_EPOCH).ok()?;
        let records = field("records ")?.parse().ok()?;
        let highest = Hlc::parse(field("highest ")?.as_bytes()).ok()?;
        Some(Self {
            created_ms: u64::try_from(made.as_millis()).ok()?,
            records,
            highest: (highest.wall_ms(), highest.counter()),
            salt: u64::from_str_radix(field("salt ")?, 16).ok()?,
        })
    }
}

/// End of the year 9999; later times cannot be written in this form.
const LAST_MS: u64 = 253_402_300_799_999;

/// Formats a time in milliseconds since the Unix epoch.
fn format_time(ms: u64) -> String {
    let since = Duration::from_millis(ms.min(LAST_MS));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// Returns the current time as text.
pub(crate) fn format_now() -> String {
    format_time(Header::now_ms())
}
