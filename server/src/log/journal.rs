//! Entries for the journal of systemd, with the fields of the events, in its native protocol
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL>).
use super::non_blocking_writer::NonBlockingWriter;
use super::priority;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Variable with another socket, for tests.
const TEST_SOCKET: &str = "STATESTORE_TEST_JOURNAL";
/// Maximum length of a field's name.
const MAX_NAME_BYTES: usize = 64;
/// Length of the prefix of an entry in the queue, which is the length of the entry.
const PREFIX: usize = 4;

/// Returns the socket of the journal, if the journal reads this standard error.
pub(super) fn socket_of(stderr: &File) -> Option<PathBuf> {
    let stream = std::env::var("JOURNAL_STREAM").ok()?;
    let (device, inode) = stream.split_once(':')?;
    let named = (device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?);
    let status = stderr.metadata().ok()?;
    let socket = std::env::var_os(TEST_SOCKET).map_or_else(|| SOCKET.into(), PathBuf::from);
    ((status.dev(), status.ino()) == named && socket.exists()).then_some(socket)
}

/// A layer that writes an entry for each event.
#[derive(Debug)]
pub(super) struct JournalLayer(pub(super) NonBlockingWriter);

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let message = format!("{}{}", fields.message, fields.text);
        let mut entry = Entry::new(priority(*metadata.level()), &message);
        entry.add("TARGET", metadata.target());
        for (name, value) in &fields.named {
            entry.add(&field_name(name), value);
        }
        self.0.push(&entry.finish());
    }
}

/// Returns an entry for the reason why the process ends.
pub(super) fn error_entry(message: &str) -> Vec<u8> {
    Entry::new(priority(tracing::Level::ERROR), message).finish()
}

/// The fields of an event.
#[derive(Debug, Default)]
struct EventFields {
    message: String,
    /// The other fields as text behind the message.
    text: String,
    named: Vec<(&'static str, String)>,
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.into();
            return;
        }
        // Writing to a String cannot fail.
        let _ = write!(self.text, " {}={value:?}", field.name());
        self.named.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        if field.name() == "message" {
            self.message = value;
            return;
        }
        let _ = write!(self.text, " {}={value}", field.name());
        self.named.push((field.name(), value));
    }
}

/// Returns the name of a field as the journal takes it: upper case, digits and underscores, beginning with a letter.
fn field_name(name: &str) -> String {
    let name = name.trim_start_matches(|first: char| !first.is_ascii_alphabetic());
    let upper = name.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    upper.take(MAX_NAME_BYTES).collect()
}

/// An entry being built, behind its length.
#[derive(Debug)]
struct Entry(Vec<u8>);

impl Entry {
    fn new(priority: u8, message: &str) -> Self {
        let mut entry = Self(vec![0; PREFIX]);
        entry.add("MESSAGE", message);
        entry.add("PRIORITY", &priority.to_string());
        entry.add("SYSLOG_IDENTIFIER", "statestored");
        entry
    }

    fn add(&mut self, name: &str, value: &str) {
        if name.is_empty() {
            return;
        }
        self.0.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0
                .extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - PREFIX).unwrap_or(u32::MAX);
        self.0[..PREFIX].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The journal's socket. What the socket does not take goes to standard error.
#[derive(Debug)]
pub(super) struct JournalSocket {
    socket: UnixDatagram,
    path: PathBuf,
    stderr: File,
}

impl JournalSocket {
    pub(super) fn new(path: PathBuf, stderr: File) -> io::Result<Self> {
        Ok(Self {
            socket: UnixDatagram::unbound()?,
            path,
            stderr,
        })
    }

    fn send(&mut self, entry: &[u8]) -> io::Result<()> {
        loop {
            match self.socket.send_to(entry, &self.path) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The journal restarts, or the entry is too long for a datagram.
                Err(_) => return self.stderr.write_all(entry),
            }
        }
    }
}

impl Write for JournalSocket {
    /// Takes whole entries, each behind its length.
    fn write(&mut self, entries: &[u8]) -> io::Result<usize> {
        let mut rest = entries;
        while let Some((prefix, behind)) = rest.split_first_chunk::<PREFIX>() {
            let length = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
            let (entry, next) = behind.split_at(length.min(behind.len()));
            self.send(entry)?;
            rest = next;
        }
        Ok(entries.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_have_upper_case_digits_and_underscores() {
        for (name, expected) in [
            ("keys", "KEYS"),
            ("client.id", "CLIENT_ID"),
            ("_hidden", "HIDDEN"),
            ("2nd", "ND"),
            ("ä", ""),
        ] {
            assert_eq!(field_name(name), expected);
        }
        assert_eq!(field_name(&"a".repeat(100)).len(), MAX_NAME_BYTES);
    }

    #[test]
    fn values_with_line_breaks_have_their_length() {
        let mut entry = Entry::new(6, "two\nlines");
        entry.add("KEYS", "1");
        let expected = b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\nPRIORITY=6\nSYSLOG_IDENTIFIER=statestored\nKEYS=1\n";
        assert_eq!(&entry.finish()[PREFIX..], expected);
    }
}
