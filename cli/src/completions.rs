//! `statestore completions`.
use crate::{exit::Exit, failure::Failure, output::Output};
use clap::{Args, Command};
use clap_complete::Shell;

/// Print a script for the completion of this command line in a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  statestore completions bash > ~/.local/share/bash-completion/completions/statestore
  statestore completions zsh > ~/.zfunc/_statestore          where fpath has this folder
  statestore completions fish > ~/.config/fish/completions/statestore.fish";

impl Completions {
    /// Prints the script for this command line.
    pub(crate) async fn run(self, mut command: Command) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "statestore", &mut script);
        Output::stdout().print(&script).await?;
        Ok(Exit::Done)
    }
}
