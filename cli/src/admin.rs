//! `statestore admin`.
use crate::{
    admin_port::AdminPort, escape::escape, exit::Exit, failure::Failure,
    global_options::GlobalOptions, key, message, output::Output, record::json_line,
};
use bytes::Bytes;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};
use tokio::{fs::File, io::AsyncWriteExt as _};

/// Administer a running server over its HTTP port
///
/// Changes need the token of the server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Admin {
    #[command(flatten)]
    port: AdminPort,
    #[command(subcommand)]
    task: AdminCommand,
}

const EXAMPLES: &str = "\
Examples:
  statestore admin reload --token-file token                 reload the configuration
  statestore admin backup store.backup --token-file token    write a backup to a file
  statestore admin disconnect gateway-1 --token-file token   disconnect a client, which may reconnect
  statestore admin log info,statestored_broker=debug --token-file token   log more, until the next reload
  STATESTORE_ADMIN=http://edge:9883 statestore admin status";

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Print the current metrics, as JSON
    Status,
    /// Reload the configuration and its files
    Reload,
    /// Write a backup of the store to a new file
    Backup {
        /// The file
        file: PathBuf,
    },
    /// Disconnect a client, which may reconnect
    Disconnect {
        /// The client id
        client: String,
    },
    /// Delete a key; a protected key needs its fencing token
    Delete {
        /// The key
        key: OsString,
        /// The fencing token of the key
        #[arg(long, value_name = "TOKEN")]
        fence: Option<String>,
    },
    /// Print the log filter of the server, or change it until the next reload
    Log {
        /// The filter: a level, and levels of targets, such as info,statestored::audit=debug
        #[allow(clippy::doc_markdown, reason = "help is plain text")]
        filter: Option<String>,
    },
}

impl Admin {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let (document, text, exit) = self.execute(global).await?;
        let line = if global.json {
            json_line(&document)
        } else {
            text.into_bytes()
        };
        Output::stdout().print(&line).await?;
        Ok(exit)
    }

    /// Returns the document of the server, its text for people, and the exit code.
    async fn execute(&self, global: &GlobalOptions) -> Result<(Value, String, Exit), Failure> {
        let (document, text) = match &self.task {
            AdminCommand::Status => {
                let document = self.port.get_json("/api/status", global.timeout).await?;
                let text = format!("{document:#}\n");
                (document, text)
            }
            AdminCommand::Reload => {
                let document = self.change("/api/reload", &Value::Null, global).await?;
                let (text, exit) = reload_result(&document);
                return Ok((document, text, exit));
            }
            AdminCommand::Disconnect { client } => {
                let request = json!({ "client": client });
                let document = self.change("/api/disconnect", &request, global).await?;
                (document, "disconnected\n".into())
            }
            AdminCommand::Delete { key, fence } => {
                let key = key::from_argument(key, global.escaped)?;
                let request = match std::str::from_utf8(&key) {
                    Ok(text) => json!({ "key": text, "fence": fence }),
                    Err(_) => json!({ "hex": format!("{key:x}"), "fence": fence }),
                };
                let document = self.change("/api/delete", &request, global).await?;
                if document["deleted"] == 0 {
                    return Ok((document, String::new(), key::report_absent(&key)));
                }
                (document, "deleted\n".into())
            }
            AdminCommand::Log { filter } => {
                let document = match filter {
                    Some(filter) => {
                        let request = json!({ "filter": filter });
                        self.change("/api/log", &request, global).await?
                    }
                    None => self.port.get_json("/api/log", global.timeout).await?,
                };
                let text = format!("{}\n", document["filter"].as_str().unwrap_or_default());
                (document, text)
            }
            AdminCommand::Backup { file } => {
                let bytes = self.backup(file, global).await?;
                let text = message::count(bytes, "byte") + "\n";
                (json!({ "bytes": bytes }), text)
            }
        };
        Ok((document, text, Exit::Done))
    }

    async fn change(
        &self,
        path: &'static str,
        request: &Value,
        global: &GlobalOptions,
    ) -> Result<Value, Failure> {
        let body = Bytes::from(request.to_string());
        let answer = self.port.post(path, body, global.timeout);
        let answer = answer.await?.error_for_status(global.timeout).await?;
        answer.json(global.timeout).await
    }

    /// Writes a temporary file beside the target first, so that the target is complete or absent.
    async fn backup(&self, file: &Path, global: &GlobalOptions) -> Result<u64, Failure> {
        let failed = |error: io::Error| Failure::file("write", file, &error);
        if tokio::fs::try_exists(file).await.map_err(failed)? {
            let reason = "the file exists; choose another name";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, reason)));
        }
        let request = self.port.post_long_running("/api/backup", global.timeout);
        let mut answer = request.await?.error_for_status(global.timeout).await?;
        let (partial, mut to) = PartialFile::create(file)?;
        let mut bytes = 0;
        while let Some(part) = answer.chunk(global.timeout).await? {
            to.write_all(&part).await.map_err(failed)?;
            bytes += part.len() as u64;
        }
        to.flush().await.map_err(failed)?;
        to.sync_all().await.map_err(failed)?;
        // Unlike a rename, a hard link does not replace a file that another process has created there meanwhile.
        let linked = tokio::fs::hard_link(&partial.0, file).await;
        linked.map_err(failed)?;
        // The name has to survive a power failure as well.
        let named = File::open(parent_folder(file)).await.map_err(failed)?;
        named.sync_all().await.map_err(failed)?;
        Ok(bytes)
    }
}

/// Returns the result of a reload, and the exit code, which depends on whether all of it took effect.
fn reload_result(done: &Value) -> (String, Exit) {
    let users = match done["users"].as_u64() {
        None => String::new(),
        Some(users) => message::count(users, "user") + "; ",
    };
    let disconnected = done["disconnected"].as_u64().unwrap_or_default();
    let clients = message::count(disconnected, "client");
    let line = format!("reloaded; {users}{clients} disconnected\n");
    let needs_restart = done["needs_restart"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if needs_restart.is_empty() {
        return (line, Exit::Done);
    }
    let options = needs_restart.iter().filter_map(Value::as_str);
    let options = escape(options.collect::<Vec<_>>().join(", ").as_bytes());
    (
        format!("{line}needs a restart: {options}\n"),
        Exit::NegativeResult,
    )
}

/// Returns the folder of a file.
fn parent_folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// A temporary file, incomplete or already linked under its final name. It is removed when this is dropped, also after a signal.
struct PartialFile(PathBuf);

impl PartialFile {
    /// Creates a temporary file beside this file, readable by this user only. The call is synchronous, so that no signal arrives
    /// between the creation and the guard that removes the file.
    fn create(file: &Path) -> Result<(Self, File), Failure> {
        let mut path = file.to_owned().into_os_string();
        path.push(".partial");
        let path = PathBuf::from(path);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Ok(opened) => Ok((Self(path), opened.into())),
            Err(error) => Err(Failure::file("write", &path, &error)),
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
