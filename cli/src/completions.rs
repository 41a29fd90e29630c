//! `statestore completions`.
use crate::{arguments::Arguments, exit::Exit, failure::Failure, output::Output};
use clap::{Args, CommandFactory as _};
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
    /// Runs the subcommand.
    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut Arguments::command(),
            "statestore",
            &mut script,
        );
        Output::stdout().print(&script).await?;
        Ok(Exit::Done)
    }
}
