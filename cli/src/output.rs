//! Standard output: binary-safe, and never a blocking write on the thread that serves the connection. Output to a terminal cannot
//! control it.
use crate::{escape::displayed, failure::Failure};
use std::io::{self, IsTerminal as _};
use tokio::io::{AsyncWriteExt as _, BufWriter, Stdout};

/// Prints the result of a request. A closed standard output is no failure, because the exit code reports the result as well.
pub(crate) async fn print_result(line: &[u8]) -> Result<(), Failure> {
    match Output::stdout().print(line).await {
        Err(Failure::OutputClosed) => Ok(()),
        other => other,
    }
}

/// Buffered standard output.
#[derive(Debug)]
pub(crate) struct Output {
    inner: BufWriter<Stdout>,
    /// Whether standard output is a terminal.
    is_terminal: bool,
}

impl Output {
    /// Returns the standard output of this process.
    pub(crate) fn stdout() -> Self {
        Self {
            inner: BufWriter::with_capacity(64 * 1024, tokio::io::stdout()),
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Whether the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes bytes unchanged, unless the output is a terminal that they would control. The bytes may stay in the buffer until
    /// [`flush`](Self::flush).
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let shown = if self.is_terminal {
            displayed(bytes)
        } else {
            bytes.into()
        };
        self.inner
            .write_all(&shown)
            .await
            .map_err(|error| Failure::output(&error))
    }

    /// Hands everything written so far to the reader.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        self.inner
            .flush()
            .await
            .map_err(|error| Failure::output(&error))
    }

    /// Writes and flushes.
    pub(crate) async fn print(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(bytes).await?;
        self.flush().await
    }
}
