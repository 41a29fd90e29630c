//! `statestored check`: checks that all files are as they were written.
use super::progress::Progress;
use super::source::open_file;
use super::{ToolError, record_count};
use clap::Args;
use serde::Serialize;
use statestored_storage::backup::BackupReader;
use statestored_storage::durable::{self, CheckReport};
use statestored_storage::{Damage, RecordReceiver, RecordView, StorageError};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const DAMAGED: u8 = 1;
const UNCHECKED: u8 = 2;

const EXAMPLES: &str = "\
Reads all files, changes none, and reports each damaged file and the position of the damage.

Exit codes:
  0  nothing is damaged
  1  something is damaged
  2  the check failed, for example because a server runs on the folder

Examples:
  statestored check /var/lib/statestored
      check a data folder
  statestored check --json /mnt/backups/state
      check a backup, for a program";

/// Reads and checks everything.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// The data folder of a server that does not run, or a backup
    #[arg(value_name = "DIR|BACKUP")]
    path: PathBuf,

    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// The report in JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    path: String,
    kind: &'static str,
    fine: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    files: u64,
    bytes: u64,
    damage: Vec<DamageReport<'a>>,
    /// Files that do not belong to the store.
    strangers: Vec<String>,
    /// Log that ends with an unfinished commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    torn: Option<String>,
}

#[derive(Debug, Serialize)]
struct DamageReport<'a> {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    what: &'a str,
}

impl<'a> From<&'a Damage> for DamageReport<'a> {
    fn from(damage: &'a Damage) -> Self {
        Self {
            file: text(damage.path()),
            offset: damage.offset(),
            what: damage.problem(),
        }
    }
}

impl Check {
    pub(super) fn run(&self) -> Result<ExitCode, ToolError> {
        match self.try_run() {
            Err(ToolError::Storage(StorageError::Stopped)) => {
                Err(ToolError::Storage(StorageError::Stopped))
            }
            Err(error) => {
                // The rest cannot be read.
                let _ = writeln!(std::io::stderr(), "statestored: {error}");
                Ok(UNCHECKED.into())
            }
            result => result,
        }
    }

    fn try_run(&self) -> Result<ExitCode, ToolError> {
        let status = fs::metadata(&self.path).map_err(StorageError::io(|| {
            format!("cannot read {}", self.path.display())
        }))?;
        let is_backup = !status.is_dir();
        let checked = if is_backup {
            self.check_backup()?
        } else {
            self.check_directory()?
        };
        let code = if checked.damage.is_empty() {
            ExitCode::SUCCESS
        } else {
            DAMAGED.into()
        };
        let mut stdout = std::io::stdout().lock();
        let written = if self.json {
            let report = self.report(&checked, is_backup);
            serde_json::to_writer(&mut stdout, &report)
                .map_err(std::io::Error::from)
                .and_then(|()| stdout.write_all(b"\n"))
        } else {
            stdout.write_all(self.report_text(&checked).as_bytes())
        };
        written?;
        Ok(code)
    }

    fn check_directory(&self) -> Result<CheckReport, ToolError> {
        let mut progress = Progress::begin("checking", None)?;
        Ok(durable::check(&self.path, &mut |bytes| {
            progress.advance(bytes)
        })?)
    }

    fn check_backup(&self) -> Result<CheckReport, ToolError> {
        let (file, length) = open_file(&self.path)?;
        let mut checked = CheckReport::for_single_file(length.unwrap_or_default());
        let Some(backup) = checked.record_damage(BackupReader::new(&self.path, file))? else {
            return Ok(checked);
        };
        let mut reading = CountingReceiver {
            progress: Progress::begin("checking", length)?,
            bytes: backup.offset(),
        };
        let records = backup.header().records;
        if checked
            .record_damage(backup.records(&mut reading))?
            .is_some()
        {
            checked.records = Some(records);
        }
        // The length of a pipe is known only after it was read.
        checked.bytes = checked.bytes.max(reading.bytes);
        Ok(checked)
    }

    fn report<'a>(&self, checked: &'a CheckReport, is_backup: bool) -> Report<'a> {
        Report {
            path: text(&self.path),
            kind: if is_backup { "backup" } else { "data folder" },
            fine: checked.damage.is_empty(),
            records: checked.records,
            files: checked.files,
            bytes: checked.bytes,
            damage: checked.damage.iter().map(DamageReport::from).collect(),
            strangers: checked
                .unknown_files
                .iter()
                .map(|path| text(path))
                .collect(),
            torn: checked.torn_log.as_deref().map(text),
        }
    }

    fn report_text(&self, checked: &CheckReport) -> String {
        let mut lines = String::new();
        let mut say = |line: std::fmt::Arguments<'_>| {
            lines.push_str(&line.to_string());
            lines.push('\n');
        };
        for damage in &checked.damage {
            say(format_args!(
                "{} {}",
                damage.path().display(),
                damage.problem()
            ));
        }
        for stranger in &checked.unknown_files {
            say(format_args!(
                "{} is not needed; it does no harm",
                stranger.display()
            ));
        }
        if let Some(log) = &checked.torn_log {
            say(format_args!(
                "{} ends with a commit that was never finished; the next start cuts it off",
                log.display()
            ));
        }
        let path = self.path.display();
        match checked.records {
            Some(records) => say(format_args!(
                "{path} is as it was written: {}",
                record_count(records)
            )),
            None => say(format_args!("{path} is damaged")),
        }
        lines
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A receiver that only shows progress.
struct CountingReceiver {
    progress: Progress,
    bytes: u64,
}

impl RecordReceiver for CountingReceiver {
    fn record(&mut self, _record: &RecordView<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.bytes += bytes;
        self.progress.advance(bytes)
    }
}
