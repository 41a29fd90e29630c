//! `statestore health`.
use crate::{
    admin_port::AdminPort, arguments::GlobalOptions, exit::Exit, failure::Failure, output::Output,
};
use bytes::Bytes;
use clap::Args;
use hyper::{Method, StatusCode, Uri};

/// Check whether a server is alive, or ready for clients
///
/// Exit codes: 0 yes, 1 no, 3 no answer. Meant for the checks of containers and supervisors.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Health {
    /// The HTTP port of the server: http://HOST:PORT
    #[arg(
        env = "STATESTORE_ADMIN",
        default_value = "http://127.0.0.1:9883",
        value_name = "ADMIN_URL"
    )]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    admin_url: Uri,
    /// Check whether the server is ready for clients
    #[arg(long)]
    ready: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore health                           alive?
  statestore health --ready                   ready for clients?
  statestore health http://[::1]:9883 --timeout 3s";

impl Health {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let port = AdminPort::open(self.admin_url);
        let request = port.send(Method::GET, path, Bytes::new(), global.timeout);
        let answer = request.await?;
        let exit = match answer.status {
            StatusCode::OK => Exit::Done,
            StatusCode::SERVICE_UNAVAILABLE => Exit::NegativeResult,
            _ => {
                return Err(answer
                    .error_for_status(global.timeout)
                    .await
                    .err()
                    .unwrap_or_else(|| {
                        Failure::new(Exit::NoResponse, "this is not an HTTP port of statestored")
                    }));
            }
        };
        let text = answer.text(global.timeout).await?;
        Output::stdout().print(&text).await?;
        Ok(exit)
    }
}
