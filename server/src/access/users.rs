//! Users, and the files in which they are written down.
use super::Credentials;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Permissions of a file.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// Users with their passwords.
#[derive(Clone, Default)]
pub struct Users {
    passwords: HashMap<Arc<str>, Zeroizing<Box<[u8]>>>,
    source: Option<UsersSource>,
}

/// Where users were read from, to read them again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsersSource {
    /// A file of [users](Users::read).
    Users(PathBuf),
    /// The file of the [password](Users::with_password_file) of one user.
    Password {
        /// Who that is.
        user: String,
        /// The file.
        file: PathBuf,
    },
}

impl UsersSource {
    /// Reads them as they are now. Blocks as long as the files take.
    pub fn read(&self) -> Result<Users, UsersError> {
        match self {
            Self::Users(path) => Users::read(path),
            Self::Password { user, file } => Users::with_password_file(user, file),
        }
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.passwords.len())
    }
}

/// Why a file of users or of a password is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A line is not `NAME:PASSWORD`.
    #[error("{path}, line {line}: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// It has no password or no users.
    #[error("{path} is empty")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Users {
    /// Adds a user; `false` if there was one of that name, which stays.
    pub fn add(&mut self, name: &str, password: &[u8]) -> bool {
        if self.passwords.contains_key(name) {
            return false;
        }
        let password = Zeroizing::new(password.into());
        self.passwords.insert(name.into(), password);
        true
    }

    /// Reads a file with one `NAME:PASSWORD` per line. Empty lines and lines that begin with
    /// `#` do not count; everything after the first `:` is the password.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let text = read(path)?;
        let mut users = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let problem = match line.split_once(':') {
                None => "expected NAME:PASSWORD",
                Some(("", _)) => "the user name is empty",
                Some((_, "")) => "the password is empty",
                Some((name, password)) if users.add(name, password.as_bytes()) => continue,
                Some(_) => "this user stands twice",
            };
            return Err(UsersError::Line {
                path: path.into(),
                line: index + 1,
                problem,
            });
        }
        if users.passwords.is_empty() {
            return Err(UsersError::Empty { path: path.into() });
        }
        users.source = Some(UsersSource::Users(path.into()));
        Ok(users)
    }

    /// One user whose password is the content of a file, without the newline at its end.
    pub fn with_password_file(name: &str, path: &Path) -> Result<Self, UsersError> {
        let text = read(path)?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() {
            return Err(UsersError::Empty { path: path.into() });
        }
        let mut users = Self::default();
        users.add(name, password.as_bytes());
        users.source = Some(UsersSource::Password {
            user: name.into(),
            file: path.into(),
        });
        Ok(users)
    }

    /// Where they were read from; `None` if they were [added](Self::add) one by one.
    pub fn source(&self) -> Option<&UsersSource> {
        self.source.as_ref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.passwords.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.passwords.is_empty()
    }

    /// Whether there is a user of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.passwords.contains_key(name)
    }

    /// Whether a user has the same password there, too.
    pub(super) fn has_same_password(&self, other: &Self, name: &str) -> bool {
        self.passwords.get(name) == other.passwords.get(name)
    }

    /// The user for whom this client id is reserved.
    pub(super) fn owner(&self, client_id: &str) -> Option<&str> {
        let ends = client_id
            .match_indices(['/', ':', '.', '-', '_', '@'])
            .map(|(end, _)| end);
        let mut names = std::iter::once(client_id.len())
            .chain(ends.rev())
            .map(|end| &client_id[..end]);
        let (name, _) = names.find_map(|name| self.passwords.get_key_value(name))?;
        Some(name)
    }

    /// The name of the user whose password this is.
    pub(super) fn check(&self, credentials: Credentials<'_>) -> Option<Arc<str>> {
        let (name, expected) = self.passwords.get_key_value(credentials.user_name?)?;
        is_equal_in_constant_time(expected, credentials.password?).then(|| Arc::clone(name))
    }
}

/// Reads a file of passwords, with a warning if others may read it as well.
fn read(path: &Path) -> Result<Zeroizing<String>, UsersError> {
    let read = || {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.permissions().mode() & OTHERS_READ_OR_WRITE != 0 {
            tracing::warn!(
                "every user of this machine may read or change the passwords in {path}: chmod o-rw {path}",
                path = path.display()
            );
        }
        // With room for all of it: a buffer that grows leaves copies behind.
        let capacity = usize::try_from(metadata.len()).unwrap_or(0) + 64;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        file.read_to_end(&mut bytes)?;
        String::from_utf8(std::mem::take(&mut *bytes)).map_err(|error| {
            drop(Zeroizing::new(error.into_bytes()));
            io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")
        })
    };
    read()
        .map(Zeroizing::new)
        .map_err(|source| UsersError::Read {
            path: path.into(),
            source,
        })
}

/// Compares in a time that depends on the lengths only, so that guessing byte by byte teaches nothing.
fn is_equal_in_constant_time(expected: &[u8], given: &[u8]) -> bool {
    let differences = expected
        .iter()
        .zip(given)
        .fold(0, |differences, (a, b)| differences | (a ^ b));
    std::hint::black_box(differences) == 0 && expected.len() == given.len()
}
