//! The options of `statestore-dapr`.
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

const DEFAULT_FOLDER: &str = "dapr-components-sockets";

const EXAMPLES: &str = "\
Examples:
  statestore-dapr
      serve components of the type state.statestore, for a daprd that you start afterwards
  statestore-dapr --name azure.iotoperations
      serve components of the type state.azure.iotoperations, in place of the vendor's
  statestore-dapr --socket /run/dapr/statestore.sock --socket-mode 660
      create the socket in your own folder, with access for its group; start daprd with that folder

The component is a file in the folder of daprd's --resources-path:

  apiVersion: dapr.io/v1alpha1
  kind: Component
  metadata:
    name: statestore
  spec:
    type: state.statestore
    version: v1
    metadata:
    - name: url
      value: mqtt://127.0.0.1:1883

Start it before daprd, which looks for sockets only when it starts. The name of the socket without `.sock` is the type of the \
component, after `state.`. The metadata of each component has the address and the credentials: url, or hostname, tcpPort and useTls, \
with caFile, satAuthFile and more (docs/dapr.md). One process serves up to 100 components.

When it is ready, it prints `listening on PATH` to standard output; logs go to standard error. SIGTERM and SIGINT stop it cleanly.";

/// The command line of `statestore-dapr`.
#[derive(Debug, Parser)]
#[command(
    name = "statestore-dapr",
    version,
    about = "A state component for Dapr, over the state store: ETags, transactions, expiry",
    after_help = EXAMPLES
)]
pub(crate) struct Arguments {
    /// Path of the socket, instead of a name in Dapr's folder
    #[arg(long, value_name = "PATH", conflicts_with_all = ["name", "folder"])]
    socket: Option<PathBuf>,

    /// Name of the socket without `.sock`, and so of the component's type without `state.`
    #[arg(long, value_name = "NAME", default_value = "statestore", value_parser = socket_name)]
    name: String,

    /// Folder of the socket, created if missing [default: dapr-components-sockets in the folder for temporary files]
    #[arg(long, value_name = "FOLDER", env = "DAPR_COMPONENTS_SOCKETS_FOLDER")]
    folder: Option<PathBuf>,

    /// Permissions of the socket, in octal digits: daprd may run as another user
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    socket_mode: u32,

    /// Address of the store for components without one in their metadata, as mqtt://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "STATESTORE_URL",
        hide_env_values = true
    )]
    url: Option<String>,

    /// Level of the log: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,

    /// Format of the log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines of text with the time.
    Text,
    /// One JSON object per line.
    Json,
    /// Lines for systemd: without the time, beginning with the priority, as `<4>`.
    Journal,
}

impl Arguments {
    /// The path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        match &self.socket {
            Some(path) => path.clone(),
            None => self.folder().join(format!("{}.sock", self.name)),
        }
    }

    fn folder(&self) -> PathBuf {
        match &self.folder {
            Some(folder) if !folder.as_os_str().is_empty() => folder.clone(),
            _ => std::env::temp_dir().join(DEFAULT_FOLDER),
        }
    }

    /// The permissions of the socket.
    pub(crate) fn socket_mode(&self) -> u32 {
        self.socket_mode
    }

    /// The store of components whose metadata has no URL.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }

    /// The log level.
    pub(crate) fn log_level(&self) -> LevelFilter {
        self.log
    }

    /// The form of the log.
    pub(crate) fn log_format(&self) -> LogFormat {
        self.log_format
    }
}

/// Returns the name of the component type: Dapr compares types in lower case, and takes the name of the file unchanged.
fn socket_name(name: &str) -> Result<String, &'static str> {
    let name = name.strip_suffix(".sock").unwrap_or(name);
    let name = name.strip_prefix("state.").unwrap_or(name);
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
        return Err(
            "a name has only small letters, digits, `.`, `-` and `_`, and begins with none of these dots",
        );
    }
    Ok(name.to_owned())
}

fn mode(text: &str) -> Result<u32, &'static str> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions are three octal digits, as 660"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(arguments: &[&str]) -> Result<PathBuf, String> {
        let all = ["statestore-dapr", "--folder", "/folder"].iter();
        Arguments::try_parse_from(all.chain(arguments))
            .map(|arguments| arguments.socket())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_name_is_that_of_the_socket() {
        for (arguments, path) in [
            (&[][..], "/folder/statestore.sock"),
            (
                &["--name", "azure.iotoperations"],
                "/folder/azure.iotoperations.sock",
            ),
            (
                &["--name", "state.azure.iotoperations"],
                "/folder/azure.iotoperations.sock",
            ),
            (&["--name", "mine.sock"], "/folder/mine.sock"),
        ] {
            assert_eq!(socket(arguments).unwrap(), PathBuf::from(path));
        }
        for name in ["", "../up", ".hidden", "Upper", "a b"] {
            let error = socket(&["--name", name]).unwrap_err();
            assert!(error.contains("small letters"), "{error}");
        }
        assert!(socket(&["--socket", "/other"]).is_err());
    }

    #[test]
    fn permissions_are_octal() {
        let parse = |mode| Arguments::try_parse_from(["statestore-dapr", "--socket-mode", mode]);
        assert_eq!(parse("660").unwrap().socket_mode(), 0o660);
        for wrong in ["8", "1777", "rw", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
