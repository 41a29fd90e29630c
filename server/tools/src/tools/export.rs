//! `statestored export`: writes the records as text.
use super::ToolError;
use super::progress::Progress;
use super::source::Source;
use clap::Args;
use statestored_storage::{StorageError, json_lines};
use std::io::{BufWriter, ErrorKind};

const EXAMPLES: &str = "\
Writes JSON Lines to standard output: a header with the number of records, then one object for each record: \
{\"key\":\"greeting\",\"value\":\"hello\",\"version\":\"001763839924100:00000:StateStore\"}. Keys and values that are not UTF-8 are in \
key_base64 and value_base64.

Examples:
  statestored export --data-dir /var/lib/statestored > state.jsonl
      write all records of a data folder as text
  statestored export /mnt/backups/state | jq -r 'select(.expiry) | .key'
      show the keys in a backup that expire";

/// Writes records as text.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    #[command(flatten)]
    source: Source,
}

impl Export {
    pub(super) fn run(&self) -> Result<(), ToolError> {
        let mut progress = Progress::begin("exporting", None)?;
        let mut records = self.source.open(&mut progress)?;
        let mut stdout = BufWriter::with_capacity(256 << 10, std::io::stdout().lock());
        let written = json_lines::write(&mut *records, &mut stdout, &mut |bytes| {
            progress.advance(bytes)
        });
        match written {
            // The reader may have ended early, like `head`.
            Err(StorageError::Io { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {
                // The buffered bytes have no reader.
                drop(stdout.into_parts());
                Ok(())
            }
            result => Ok(result.map(drop)?),
        }
    }
}
