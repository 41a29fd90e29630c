//! The programs of a run.
use clap::Args;
use std::path::{Path, PathBuf};

/// Where they are; `scripts/chaos` and `scripts/soak` build them and say so.
#[derive(Debug, Clone, Args)]
pub struct Programs {
    /// The server
    #[arg(long, value_name = "FILE")]
    pub server: PathBuf,

    /// The client in C, built from tests/chaos/clients/client.c
    #[arg(long, value_name = "FILE")]
    pub c: PathBuf,

    /// Folder in which Python finds the package `statestore`
    #[arg(long, value_name = "DIR")]
    pub python_path: PathBuf,

    /// Folder of the Node package `statestore`
    #[arg(long, value_name = "DIR")]
    pub node_package: PathBuf,

    /// tests/disk/disk.c as a shared object, put between processes and their disks and clocks
    #[arg(long, value_name = "FILE")]
    pub disk: PathBuf,
}

/// Language of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// The crate `statestore`.
    Rust,
    /// The C library, blocking calls on threads.
    C,
    /// Python's blocking API, on threads.
    Python,
    /// Python's `statestore.aio`.
    Asyncio,
    /// Node.
    Node,
}

/// All languages.
pub const LANGUAGES: [Language; 5] = [
    Language::Rust,
    Language::C,
    Language::Python,
    Language::Asyncio,
    Language::Node,
];

impl Programs {
    /// Returns the command that runs the client in this language.
    pub fn client(&self, language: Language) -> tokio::process::Command {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let mut command;
        match language {
            Language::Rust => {
                let own = std::env::current_exe().unwrap();
                command = tokio::process::Command::new(own.with_file_name("chaos-client"));
            }
            Language::C => command = tokio::process::Command::new(&self.c),
            Language::Python | Language::Asyncio => {
                let name = if language == Language::Python {
                    "blocking.py"
                } else {
                    "aio.py"
                };
                command = tokio::process::Command::new("python3");
                command.arg(sources.join(name));
                command.env("PYTHONPATH", &self.python_path);
                command.env("PYTHONDONTWRITEBYTECODE", "1");
            }
            Language::Node => {
                command = tokio::process::Command::new("node");
                command.arg(sources.join("client.mjs"));
                command.arg(&self.node_package);
            }
        }
        command
    }
}
