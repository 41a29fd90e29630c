//! `statestore top`.
mod screen;
mod view;

use crate::{arguments::Global, exit::Exit, failure::Failure, output::Output, port::Port};
use clap::Args;
use screen::Screen;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Interval at which the metrics are read.
const EVERY: Duration = Duration::from_secs(1);

/// Watch the figures of a server, refreshed each second
///
/// On a terminal, `q` or Ctrl-C ends it. Otherwise it prints the figures of one second and ends.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    port: Port,
}

const EXAMPLES: &str = "\
Examples:
  statestore top
  statestore top --admin http://edge:9883 --token-file token
  statestore top | cat                    one block, for a log";

impl Top {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut stdout = Output::stdout();
        let mut before = self.read(global).await?;
        if !stdout.is_terminal() {
            sleep(EVERY).await;
            let now = self.read(global).await?;
            let text = view::lines(&before, &now).join("\n") + "\n";
            stdout.print(text.as_bytes()).await?;
            return Ok(Exit::Done);
        }
        let mut screen = Screen::enter()?;
        let mut seconds = interval(EVERY);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lines = vec!["waiting for the figures of a second".to_owned()];
        loop {
            Screen::show(&lines)?;
            tokio::select! {
                () = screen.quit() => return Ok(Exit::Done),
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

    async fn read(&self, global: &Global) -> Result<Value, Failure> {
        self.port.document("/api/status", global.timeout).await
    }
}
