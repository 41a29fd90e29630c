//! `statestored passwd`: edits the lines of a user in a file of users.
use clap::Args;
use rustix::fs::{FlockOperation, flock};
use statestored_access::{PasswordHash, ScramKeys, salt_key};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// Permissions of the file: those of the owner, and that of the group if it has it already.
const OWNER_MODE: u32 = 0o600;
const GROUP_READ_MODE: u32 = 0o040;

/// Maximum length of a password in MQTT, in bytes.
const MAX_PASSWORD_BYTES: usize = 65_535;

const EXAMPLES: &str = "\
Writes a hash (argon2id) of the password. A new file is readable for its owner only. The file is replaced atomically, so a running \
server never reads an incomplete one. The server applies it at a reload (SIGHUP).

Examples:
  statestored passwd /etc/statestored/users ann
      ask for the password of ann, twice
  openssl rand -base64 24 | tee ann.password | statestored passwd --stdin /etc/statestored/users ann
      give ann a random password
  statestored passwd --delete /etc/statestored/users ann
      remove ann";

/// Sets or deletes a user.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Passwd {
    /// The file that --users-file of the server names
    file: PathBuf,

    /// The user
    #[arg(value_parser = name)]
    name: String,

    /// Delete the user
    #[arg(long, conflicts_with = "stdin")]
    delete: bool,

    /// Read the password from standard input: one line
    #[arg(long)]
    stdin: bool,

    /// Also write keys for SCRAM-SHA-256, with which clients prove the password without sending it
    #[arg(long, conflicts_with = "delete")]
    scram: bool,
}

/// Reason why a file of users was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PasswdError {
    #[error("cannot {what} {path}: {source}")]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot read the password: {0}")]
    Input(io::Error),
    #[error("the password is empty")]
    Empty,
    #[error("the password is longer than 65535 bytes")]
    TooLong,
    #[error("the passwords differ: nothing was changed")]
    Mismatch,
    #[error("there is no memory for the hash of the password")]
    NoMemory,
    #[error("a password for SCRAM has only printable characters of ASCII")]
    NotAscii,
    #[error("the system gives no random bytes")]
    NoRandomness,
    #[error(
        "cannot replace {path}: it is mounted by itself, and only what is in it can be changed; mount its folder, or change the file where it \
         comes from"
    )]
    Mounted { path: PathBuf },
    #[error("there is no user {name} in {path}")]
    NoUser { name: String, path: PathBuf },
}

/// Returns the name if the file can contain it, else the reason.
fn name(name: &str) -> Result<String, &'static str> {
    if name.is_empty() {
        Err("a user name is not empty")
    } else if name.contains(':') || name.contains(char::is_control) || name.starts_with('#') {
        Err(
            "a user name in a file has no colon and no control character, and does not begin with #",
        )
    } else {
        Ok(name.into())
    }
}

impl Passwd {
    pub(super) fn run(self) -> Result<(), PasswdError> {
        let secrets = if self.delete {
            Vec::new()
        } else {
            let password = self.password()?;
            let hash = PasswordHash::compute(&password).map_err(|_| PasswdError::NoMemory)?;
            let mut secrets = vec![hash.to_string()];
            if self.scram {
                // Other characters would need the same normalisation on both sides.
                if !password.iter().all(|byte| matches!(byte, b' '..=b'~')) {
                    return Err(PasswdError::NotAscii);
                }
                let keys = ScramKeys::derive(&password).ok_or(PasswdError::NoRandomness)?;
                secrets.push(keys.to_string());
            }
            secrets
        };
        let lines: Vec<String> = secrets
            .iter()
            .map(|secret| format!("{}:{secret}", self.name))
            .collect();
        self.edit(&lines)
    }

    fn password(&self) -> Result<Zeroizing<Vec<u8>>, PasswdError> {
        let password = if self.stdin || !io::stdin().is_terminal() {
            read_first_line(&mut io::stdin().lock()).map_err(PasswdError::Input)?
        } else {
            let ask = |prompt| {
                rpassword::prompt_password(prompt)
                    .map(|password| Zeroizing::new(password.into_bytes()))
                    .map_err(PasswdError::Input)
            };
            let password = ask("New password: ")?;
            if *password != *ask("The same again: ")? {
                return Err(PasswdError::Mismatch);
            }
            password
        };
        match password.len() {
            0 => Err(PasswdError::Empty),
            1..=MAX_PASSWORD_BYTES => Ok(password),
            _ => Err(PasswdError::TooLong),
        }
    }

    /// Replaces the lines of the user with these lines.
    fn edit(&self, lines: &[String]) -> Result<(), PasswdError> {
        let failed = |what| {
            let path = self.file.clone();
            move |source| PasswdError::File { what, path, source }
        };
        // The target of a link is replaced, not the link.
        let path = match fs::canonicalize(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.file.clone(),
            other => other.map_err(failed("find"))?,
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let directory = File::open(folder).map_err(failed("open the folder of"))?;
        // Waits while another process edits the file.
        flock(&directory, FlockOperation::LockExclusive)
            .map_err(|error| failed("lock the folder of")(error.into()))?;
        let (text, before) = match File::open(&path) {
            Ok(file) => {
                let text = io::read_to_string(&file).map_err(failed("read"))?;
                let metadata = file.metadata().map_err(failed("read"))?;
                (Zeroizing::new(text), Some(metadata))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Zeroizing::default(), None),
            Err(error) => return Err(failed("read")(error)),
        };
        // Some editors begin UTF-8 text with a byte order mark, which is no part of the first name.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let text =
            replace_user_lines(text, &self.name, lines).ok_or_else(|| PasswdError::NoUser {
                name: self.name.clone(),
                path: self.file.clone(),
            })?;
        let text = with_salt_key(text).ok_or(PasswdError::NoRandomness)?;
        let write = || {
            let mut file = NamedTempFile::new_in(folder)?;
            let mut mode = OWNER_MODE;
            if let Some(before) = before {
                // Keeps the file readable for a server that runs as another user.
                let new = file.as_file().metadata()?;
                if (before.uid(), before.gid()) != (new.uid(), new.gid()) {
                    fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
                }
                mode |= before.mode() & GROUP_READ_MODE;
            }
            file.as_file()
                .set_permissions(Permissions::from_mode(mode))?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            directory.sync_all()
        };
        write().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::ResourceBusy => PasswdError::Mounted {
                path: self.file.clone(),
            },
            _ => failed("write")(error),
        })
    }
}

/// Reads the first line, without its end.
fn read_first_line(input: &mut impl BufRead) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(1024));
    input.read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    Ok(line)
}

/// Returns the text in which these lines replace those of the user, or follow at the end. `None` if there are none to delete.
fn replace_user_lines(text: &str, name: &str, lines: &[String]) -> Option<Zeroizing<String>> {
    let is_of_user = |line: &str| {
        let of = line.split_once(':').map(|(of, _)| of);
        of == Some(name) && !line.starts_with('#')
    };
    if lines.is_empty() && !text.lines().any(is_of_user) {
        return None;
    }
    let room = text.len() + lines.iter().map(|line| line.len() + 1).sum::<usize>() + 1;
    let mut new = Zeroizing::new(String::with_capacity(room));
    let place = text.lines().position(is_of_user).unwrap_or(usize::MAX);
    let others = text.lines().skip(place).filter(|line| !is_of_user(line));
    let all = text.lines().take(place);
    for line in all.chain(lines.iter().map(String::as_str)).chain(others) {
        new.push_str(line);
        new.push('\n');
    }
    Some(new)
}

/// Adds the salt key, from which SCRAM derives the salts of unknown users, to a file with SCRAM keys and without a salt key. `None` if
/// there is no randomness.
fn with_salt_key(mut text: Zeroizing<String>) -> Option<Zeroizing<String>> {
    let has_keys = |line: &str| {
        let secret = line.split_once(':').map(|(_, secret)| secret);
        !line.starts_with('#') && secret.is_some_and(ScramKeys::has_prefix)
    };
    if text.lines().any(has_keys) && !text.lines().any(salt_key::is_line) {
        text.push_str(&salt_key::generate_line()?);
        text.push('\n');
    }
    Some(text)
}
