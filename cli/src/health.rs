//! `statestore health`.
use crate::{
    admin_port::AdminPort, exit::Exit, failure::Failure, global_options::GlobalOptions,
    output::Output, record::json_line,
};
use clap::Args;
use hyper::StatusCode;

/// Check whether a server is alive, or ready for clients
///
/// Exit codes: 0 yes, 1 no, 3 no answer. Meant for the checks of containers and supervisors.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Health {
    #[command(flatten)]
    port: AdminPort,
    /// Check whether the server is ready for clients
    #[arg(long)]
    ready: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore health                           alive?
  statestore health --ready                   ready for clients?
  statestore health --admin http://[::1]:9883 --timeout 3s";

impl Health {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let media_type = if global.json {
            "application/json"
        } else {
            "text/plain"
        };
        let answer = self.port.get(path, media_type, global.timeout).await?;
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
        let text = if global.json {
            json_line(&answer.json(global.timeout).await?)
        } else {
            answer.text(global.timeout).await?.to_vec()
        };
        Output::stdout().print(&text).await?;
        Ok(exit)
    }
}
