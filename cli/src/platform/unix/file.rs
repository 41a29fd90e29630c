//! Files with the rights of one user, and folders.
use std::{fs::File, io, os::unix::fs::OpenOptionsExt as _, path::Path};

/// Creates a file, readable by this user only. A file that exists is an error.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// Makes the names in a folder survive a power failure.
pub(crate) async fn sync_folder(folder: &Path) -> io::Result<()> {
    tokio::fs::File::open(folder).await?.sync_all().await
}
