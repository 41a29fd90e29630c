//! `statestore admin backup`.
use super::{api::Api, document};
use crate::{exit::Exit, failure::Failure, global_options::GlobalOptions, message, platform};
use clap::Args;
use serde_json::json;
use std::{
    io,
    path::{Path, PathBuf},
};
use tokio::{fs::File, io::AsyncWriteExt as _};

/// Write a backup of the store to a new file
#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The file
    file: PathBuf,
}

impl Backup {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let bytes = write(&self.file, api).await?;
        let text = message::count(bytes, "byte") + "\n";
        document::print(&json!({ "bytes": bytes }), &text, global).await?;
        Ok(Exit::Done)
    }
}

/// Writes a temporary file beside the target first, so that the target is complete or absent.
async fn write(file: &Path, api: Api<'_>) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::file("write", file, &error);
    if tokio::fs::try_exists(file).await.map_err(failed)? {
        let reason = "the file exists; choose another name";
        return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, reason)));
    }
    let request = api.port.post_long_running("/api/backup", api.timeout);
    let mut answer = request.await?.error_for_status(api.timeout).await?;
    let (partial, mut to) = PartialFile::create(file)?;
    let mut bytes = 0;
    while let Some(part) = answer.chunk(api.timeout).await? {
        to.write_all(&part).await.map_err(failed)?;
        bytes += part.len() as u64;
    }
    to.flush().await.map_err(failed)?;
    to.sync_all().await.map_err(failed)?;
    // Unlike a rename, a hard link does not replace a file that another process has created there meanwhile.
    let linked = tokio::fs::hard_link(&partial.0, file).await;
    linked.map_err(failed)?;
    // The name has to survive a power failure as well.
    let synced = platform::sync_folder(parent_folder(file)).await;
    synced.map_err(failed)?;
    Ok(bytes)
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
        match platform::create_private(&path) {
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
