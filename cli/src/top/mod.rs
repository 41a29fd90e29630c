//! `statestore top`.
mod terminal_screen;
mod view;

use crate::{
    admin_port::AdminPort, exit::Exit, failure::Failure, global_options::GlobalOptions,
    output::Output,
};
use clap::Args;
use serde_json::Value;
use std::time::Duration;
use terminal_screen::TerminalScreen;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Interval at which the metrics are read.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Show the metrics of a server, refreshed each second
///
/// On a terminal, `q` or Ctrl-C ends it. Otherwise it prints the metrics of one second and exits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    port: AdminPort,
}

const EXAMPLES: &str = "\
Examples:
  statestore top
  statestore top --admin http://edge:9883 --token-file token
  statestore top | cat                    one block, for a log";

impl Top {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut stdout = Output::stdout();
        let mut before = self.read(global).await?;
        if !stdout.is_terminal() {
            sleep(REFRESH_INTERVAL).await;
            let now = self.read(global).await?;
            let text = view::lines(&before, &now).join("\n") + "\n";
            stdout.print(text.as_bytes()).await?;
            return Ok(Exit::Done);
        }
        let mut screen = TerminalScreen::enter()?;
        let mut seconds = interval(REFRESH_INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lines = vec!["waiting for the figures of a second".to_owned()];
        loop {
            TerminalScreen::show(&lines)?;
            tokio::select! {
                () = screen.wait_for_quit() => return Ok(Exit::Done),
                _ = seconds.tick() => match self.read(global).await {
                    Ok(now) => {
                        if now["now_ms"] != before["now_ms"] {
                            lines = view::lines(&before, &now);
                        }
                        before = now;
                    }
                    // The server may come back.
                    Err(Failure::Message { text, .. }) => lines = vec![text],
                    Err(closed @ Failure::OutputClosed) => return Err(closed),
                }
            }
        }
    }

    async fn read(&self, global: &GlobalOptions) -> Result<Value, Failure> {
        self.port.get_json("/api/status", global.timeout).await
    }
}
