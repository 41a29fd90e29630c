//! `statestored salvage`: brings what is intact in a damaged data folder into a new one.
use super::progress::Progress;
use super::{ToolError, print_record_count, record_count};
use clap::Args;
use statestored_storage::StorageError;
use statestored_storage::durable::{self, Loss, SalvageReport};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const LOST: u8 = 1;
const FAILED: u8 = 2;

const EXAMPLES: &str = "\
Restore a backup instead if you have a recent one. Salvage takes only data whose checksums match. It prints each loss with \
its file, and the number of records that a lost commit may have changed or deleted: these may be stale. Lost keys lose their \
versions and fencing tokens. Versions continue above all that were found. Restart the programs that remember versions or hold \
leases. The damaged folder is not changed.

Exit codes:
  0  nothing is lost
  1  something is damaged or lost, and the rest is in the new folder
  2  nothing was salvaged, for example because a server runs on the folder

Examples:
  statestored salvage /var/lib/statestored --out /var/lib/statestored.new
      create a new data folder from a damaged one
  statestored check /var/lib/statestored.new
      check the new folder before a server uses it";

/// Salvages a folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Salvage {
    /// The damaged data folder of a server that does not run
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The folder to fill, missing or empty, outside of the damaged one
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Salvage {
    pub(super) fn run(&self) -> Result<ExitCode, ToolError> {
        match self.try_run() {
            Err(ToolError::Storage(StorageError::Stopped)) => {
                Err(ToolError::Storage(StorageError::Stopped))
            }
            Err(error) => {
                // The rest cannot be read.
                let _ = writeln!(std::io::stderr(), "statestored: {error}");
                Ok(FAILED.into())
            }
            result => result,
        }
    }

    fn try_run(&self) -> Result<ExitCode, ToolError> {
        let mut progress = Progress::begin("salvaging", None)?;
        let report = durable::salvage(&self.directory, &self.out, &mut |bytes| {
            progress.advance(bytes)
        })?;
        drop(progress);
        self.print(&report)?;
        Ok(if report.losses.is_empty() {
            ExitCode::SUCCESS
        } else {
            LOST.into()
        })
    }

    fn print(&self, report: &SalvageReport) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        for Loss {
            path,
            bytes,
            problem,
        } in &report.losses
        {
            write!(stdout, "{} {problem}", path.display())?;
            match bytes {
                Some(bytes) => writeln!(stdout, " (bytes {} to {})", bytes.start, bytes.end)?,
                None => writeln!(stdout)?,
            }
        }
        if let Some(log) = &report.torn_log {
            writeln!(
                stdout,
                "{} ends with a commit that was never finished; it is left out",
                log.display()
            )?;
        }
        if report.possibly_stale > 0 {
            writeln!(
                stdout,
                "{} may be stale, because later commits are lost",
                record_count(report.possibly_stale)
            )?;
        }
        drop(stdout);
        print_record_count(report.records, self.out.display());
        Ok(())
    }
}
