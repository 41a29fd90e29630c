//! `statestore admin`.
use crate::{arguments::Global, exit::Exit, failure::Failure, output::Output, port::Port};
use bytes::Bytes;
use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};
use std::{io, path::PathBuf};
use tokio::io::AsyncWriteExt as _;

/// Look after a running server, over its HTTP port
///
/// What changes something needs the server's token.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Admin {
    #[command(flatten)]
    port: Port,
    #[command(subcommand)]
    task: Task,
}

const EXAMPLES: &str = "\
Examples:
  statestore admin --token-file token reload                 have the configuration read again
  statestore admin --token-file token backup store.backup    write all of the store to a file
  statestore admin --token-file token disconnect gateway-1   end a client's connection; it may come back
  STATESTORE_ADMIN=http://edge:9883 statestore admin status";

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the figures of the moment, as JSON
    Status,
    /// Have the configuration and its files read again
    Reload,
    /// Write a backup of the store to a file, which must not be there
    Backup {
        /// The file
        file: PathBuf,
    },
    /// End the connection of a client, which may come back
    Disconnect {
        /// The client id
        client: String,
    },
    /// Delete a key, also one that is protected by a fencing token, if that is given
    Delete {
        /// The key
        key: String,
        /// The fencing token that protects it
        #[arg(long, value_name = "TOKEN")]
        fence: Option<String>,
    },
}

impl Admin {
    /// Runs it.
    pub(crate) async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut stdout = Output::stdout();
        let line = match &self.task {
            Task::Status => {
                let status = self.port.document("/api/status", global.timeout);
                format!("{:#}\n", status.await?)
            }
            Task::Reload => {
                let done = self.change("/api/reload", &Value::Null, global).await?;
                match &done["users"] {
                    Value::Null => {
                        format!("reloaded; {} clients disconnected\n", done["disconnected"])
                    }
                    users => format!(
                        "reloaded; {users} users; {} clients disconnected\n",
                        done["disconnected"]
                    ),
                }
            }
            Task::Disconnect { client } => {
                let asked = json!({ "client": client });
                self.change("/api/disconnect", &asked, global).await?;
                "disconnected\n".into()
            }
            Task::Delete { key, fence } => {
                let asked = json!({ "key": key, "fence": fence });
                let done = self.change("/api/delete", &asked, global).await?;
                if done["deleted"] == 0 {
                    return Ok(crate::key::absent(key.as_bytes()));
                }
                "deleted\n".into()
            }
            Task::Backup { file } => {
                let bytes = self.backup(file, global).await?;
                format!("{bytes} bytes\n")
            }
        };
        stdout.print(line.as_bytes()).await?;
        Ok(Exit::Done)
    }

    async fn change(
        &self,
        path: &'static str,
        asked: &Value,
        global: &Global,
    ) -> Result<Value, Failure> {
        let body = Bytes::from(asked.to_string());
        let answer = self.port.ask(Method::POST, path, body, global.timeout);
        let answer = answer.await?.succeeded(global.timeout).await?;
        let text = answer.text(global.timeout).await?;
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Writes it beside the file first, so that the file is there as a whole or not at all.
    async fn backup(&self, file: &PathBuf, global: &Global) -> Result<u64, Failure> {
        let failed = |error: io::Error| Failure::file("write", file, &error);
        if tokio::fs::try_exists(file).await.map_err(failed)? {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let asked = self
            .port
            .ask(Method::POST, "/api/backup", Bytes::new(), global.timeout);
        let mut answer = asked.await?.succeeded(global.timeout).await?;
        let mut partial = file.clone().into_os_string();
        partial.push(".partial");
        let mut to = private(&PathBuf::from(&partial)).await.map_err(failed)?;
        let written = async {
            let mut bytes = 0;
            while let Some(part) = answer.part(global.timeout).await? {
                to.write_all(&part).await.map_err(failed)?;
                bytes += part.len() as u64;
            }
            to.flush().await.map_err(failed)?;
            to.sync_all().await.map_err(failed)?;
            // Unlike a renaming, it does not replace what somebody else has put there meanwhile.
            tokio::fs::hard_link(&partial, file).await.map_err(failed)?;
            Ok(bytes)
        };
        let written = written.await;
        // What is left of a failure is of no use, and the file has its own name otherwise.
        let _ = tokio::fs::remove_file(&partial).await;
        written
    }
}

/// A new file for this user only.
async fn private(path: &PathBuf) -> io::Result<tokio::fs::File> {
    let mut options = tokio::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).await
}
