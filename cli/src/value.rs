//! The sources of a value: an argument, a file, or standard input.
use crate::{failure::Failure, message, platform::END_OF_INPUT};
use bytes::Bytes;
use clap::Args;
use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum length of a value, because no MQTT packet is larger: the greatest Remaining Length (MQTT 5, section 2.1.4).
const MAX_VALUE_BYTES: usize = 268_435_455;

/// The value of a SET or VDEL.
#[derive(Debug, Args)]
pub(crate) struct ValueSource {
    /// The value; without it and without --file, standard input is read to its end, byte for byte
    #[arg(allow_negative_numbers = true, conflicts_with = "file")]
    value: Option<OsString>,
    /// Read the value from this file, byte for byte; - is standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ValueSource {
    /// Reads the whole value.
    pub(crate) async fn read(self) -> Result<Bytes, Failure> {
        if let Some(value) = self.value {
            return Ok(value.into_encoded_bytes().into());
        }
        read(self.file.as_deref(), "the value").await
    }
}

/// Whether a path means standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a file, or standard input without one, to its end.
pub(crate) async fn read(path: Option<&Path>, what: &str) -> Result<Bytes, Failure> {
    if let Some(path) = path.filter(|path| !is_standard(path)) {
        let what = format!("file '{}'", path.display());
        let file = tokio::fs::File::open(path)
            .await
            .map_err(|error| Failure::input(&what, &error))?;
        return read_bounded(file, &what).await;
    }
    if io::stdin().is_terminal() {
        message::print_line(&format!(
            "reading {what} from the terminal; end with {END_OF_INPUT}"
        ));
    }
    read_bounded(tokio::io::stdin(), "standard input").await
}

async fn read_bounded(source: impl AsyncRead + Unpin, what: &str) -> Result<Bytes, Failure> {
    let mut value = Vec::new();
    // one byte more than allowed distinguishes "too large" from "just fits"
    let mut bounded = source.take(MAX_VALUE_BYTES as u64 + 1);
    bounded
        .read_to_end(&mut value)
        .await
        .map_err(|error| Failure::input(what, &error))?;
    if value.len() > MAX_VALUE_BYTES {
        return Err(Failure::usage(format!(
            "{what} has more than {MAX_VALUE_BYTES} bytes, the most that an MQTT packet can carry; store it in parts"
        )));
    }
    Ok(value.into())
}
