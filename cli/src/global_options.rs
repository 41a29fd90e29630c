//! Options of every subcommand.
use crate::{duration, open_clients::OpenClients};
use clap::Args;
use std::time::Duration;

/// The options of every subcommand.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection and output")]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch")]
pub(crate) struct GlobalOptions {
    /// Address of the store: mqtt://[USER@]HOST[:PORT]; mqtts: for TLS, ws: and wss: for WebSocket, unix: for a socket; name the file of
    /// a password with ?password_file=FILE, because other users can read the command line
    /// [default: the variable STATESTORE_URL, else mqtt://127.0.0.1:1883]
    #[arg(long, global = true, conflicts_with = "env")]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    pub(crate) url: Option<String>,
    /// Connect by the AIO_ variables of a pod of Azure IoT Operations, with a random client id
    #[arg(long, global = true)]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    pub(crate) env: bool,
    /// Send a service account token, or a password, over plain TCP
    #[arg(long, global = true)]
    pub(crate) allow_plaintext_credentials: bool,
    /// Limit for connecting, and for each response
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_wait)]
    pub(crate) timeout: Duration,
    /// MQTT client id [default: random]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use escapes in keys and patterns, in input and output: \\ \n \r \t \xNN
    #[arg(long, short, global = true)]
    pub(crate) escaped: bool,
    #[arg(skip)]
    pub(crate) clients: OpenClients,
}
