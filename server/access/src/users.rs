//! Users, and the files that define them.
use super::foreign_hash;
use super::hash::PasswordHash;
use super::mosquitto_hash::MosquittoHash;
use super::salt_key;
use super::scram::ScramKeys;
use super::user::{StoredPassword, User, secret};
use crate::read_tracker;
use ring::hmac;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Permission bits of a file that others may read or write.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Users with their passwords.
#[derive(Clone, Default)]
pub struct Users {
    by_name: HashMap<Arc<str>, Arc<User>>,
    /// First user with a hashed password. The check for an unknown user takes as long as for this one.
    hashed_reference: Option<Arc<User>>,
    /// First user with SCRAM keys. The keys of unknown users look like these.
    scram_reference: Option<Arc<User>>,
    /// Key of the salts that unknown users see. Without it, the key of the process is used.
    decoy_salt_key: Option<hmac::Key>,
    source: Option<UsersSource>,
}

/// Origin of users, to read them again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsersSource {
    /// A file of [users](Users::read).
    Users(PathBuf),
    /// The file of the [password](Users::with_password_file) of one user.
    Password {
        /// Name of the user.
        user: String,
        /// The file.
        file: PathBuf,
    },
}

impl UsersSource {
    /// Reads the users again. Blocks while it reads the files.
    pub fn read(&self) -> Result<Users, UsersError> {
        match self {
            Self::Users(path) => Users::read(path),
            Self::Password { user, file } => Users::with_password_file(user, file),
        }
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.by_name.len())
    }
}

/// An error in a file of users or of a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{path}, line {line}: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, counted from 1.
        line: usize,
        /// The problem.
        problem: &'static str,
    },
    /// The file has no password or no users.
    #[error("{path} is empty")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Users {
    /// Adds a user. Returns `false` if there is one of that name, which stays unchanged.
    pub fn add(&mut self, name: &str, password: &[u8]) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        let mut user = User::new(name);
        user.password = Some(StoredPassword::plain(password));
        self.insert(user);
        true
    }

    fn insert(&mut self, user: User) {
        let name = Arc::clone(user.name());
        let user = Arc::new(user);
        if let Some(hash) = user.password.as_ref().filter(|it| it.is_hashed()) {
            self.hashed_reference
                .get_or_insert_with(|| Arc::clone(&user));
            self.decoy_salt_key = self.decoy_salt_key.take().or_else(|| hash.derived_key());
        }
        if user.scram_keys.is_some() {
            self.scram_reference
                .get_or_insert_with(|| Arc::clone(&user));
        }
        self.by_name.insert(name, user);
    }

    /// Reads a file with one `NAME:PASSWORD` per line, where the password is one of
    ///
    /// - a hash of it, of argon2id in the PHC string format: `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`;
    /// - a hash of it as Mosquitto 2 writes it: `$7$ITERATIONS$SALT$HASH`;
    /// - keys for SCRAM, which may stand beside a hash: `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`;
    /// - the password itself, which causes a warning. Hashes of other forms are rejected.
    ///
    /// A line `#scram-salts:KEY` has the key of the salts that SCRAM shows for unknown users. Without it, the key is
    /// derived from the first hash. Empty lines and other lines that begin with `#` are ignored. The password is
    /// everything after the first `:`.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let text = read(path)?;
        let mut read = HashMap::new();
        let mut names = Vec::new();
        let mut salts = None;
        for (index, line) in text.lines().enumerate() {
            if salt_key::is_line(line) {
                let key = salt_key::parse_line(line).map_err(|problem| UsersError::Line {
                    path: path.into(),
                    line: index + 1,
                    problem,
                })?;
                salts = Some(key);
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let name = add_line(&mut read, line).map_err(|problem| UsersError::Line {
                path: path.into(),
                line: index + 1,
                problem,
            })?;
            names.extend(name);
        }
        if read.is_empty() {
            return Err(UsersError::Empty { path: path.into() });
        }
        let is_plain = |user: &&User| matches!(user.password, Some(StoredPassword::Plain(_)));
        let plain = read.values().filter(is_plain).count();
        if plain > 0 {
            tracing::warn!(
                plain,
                "{path} has passwords in plain text: `statestored passwd {path} NAME` replaces one by a hash",
                path = path.display()
            );
        }
        let mut users = Self {
            decoy_salt_key: salts,
            ..Self::default()
        };
        // In the order of the file, which `statestored passwd` keeps: the first user with a hash or keys stays the
        // same.
        for name in names {
            if let Some(user) = read.remove(name) {
                users.insert(user);
            }
        }
        if users.scram_reference.is_some() && users.decoy_salt_key.is_none() {
            tracing::warn!(
                "the salt that SCRAM sends for unknown users changes at each start, which reveals the names of users: {path} has no \
                 key for these salts, which `statestored passwd --scram {path} NAME` writes",
                path = path.display()
            );
        }
        users.source = Some(UsersSource::Users(path.into()));
        Ok(users)
    }

    /// Reads one user, whose password is the content of a file without the newline at its end.
    pub fn with_password_file(name: &str, path: &Path) -> Result<Self, UsersError> {
        let password = read_password(path)?;
        if let Some(problem) = plain_password_refusal(&password) {
            return Err(UsersError::Line {
                path: path.into(),
                line: 1,
                problem,
            });
        }
        let mut users = Self::default();
        users.add(name, password.as_bytes());
        users.source = Some(UsersSource::Password {
            user: name.into(),
            file: path.into(),
        });
        Ok(users)
    }

    /// Returns where the users were read from; `None` if they were [added](Self::add) one by one.
    pub fn source(&self) -> Option<&UsersSource> {
        self.source.as_ref()
    }

    /// Returns the number of users.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the user of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// Returns a user whose password takes time to check, if there is one.
    pub(super) fn hashed_reference(&self) -> Option<&Arc<User>> {
        self.hashed_reference.as_ref()
    }

    /// Returns the SCRAM keys for a user name, and whether they are those of a user. Returns `None` if no user has
    /// SCRAM keys.
    pub(super) fn scram_keys(&self, name: &str) -> Option<(ScramKeys, bool)> {
        let like = self.scram_reference.as_ref()?.scram_keys.as_ref()?;
        let keys = self
            .by_name
            .get(name)
            .and_then(|user| user.scram_keys.clone());
        let is_known = keys.is_some();
        let salts = || self.decoy_salt_key.as_ref().unwrap_or_else(|| secret());
        let keys = keys.unwrap_or_else(|| ScramKeys::decoy(salts(), name, like));
        Some((keys, is_known))
    }

    /// Returns the user for whom this client id is reserved.
    pub(super) fn owner_of_client_id(&self, client_id: &str) -> Option<&str> {
        let ends = client_id
            .match_indices(['/', ':', '.', '-', '_', '@'])
            .map(|(end, _)| end);
        let mut names = std::iter::once(client_id.len())
            .chain(ends.rev())
            .map(|end| &client_id[..end]);
        let (name, _) = names.find_map(|name| self.by_name.get_key_value(name))?;
        Some(name)
    }
}

/// Adds one line of a file to the users of the lines before. Returns the name if the user is new.
fn add_line<'a>(
    users: &mut HashMap<&'a str, User>,
    line: &'a str,
) -> Result<Option<&'a str>, &'static str> {
    let (name, secret) = line.split_once(':').ok_or("expected NAME:PASSWORD")?;
    if name.is_empty() {
        return Err("the user name is empty");
    }
    if secret.is_empty() {
        return Err("the password is empty");
    }
    let is_new = !users.contains_key(name);
    let user = users.entry(name).or_insert_with(|| User::new(name));
    let before = if ScramKeys::has_prefix(secret) {
        user.scram_keys.replace(ScramKeys::parse(secret)?).is_some()
    } else {
        let password = if PasswordHash::has_prefix(secret) {
            StoredPassword::Hash(Box::new(PasswordHash::parse(secret)?))
        } else if MosquittoHash::has_prefix(secret) {
            StoredPassword::Mosquitto(Box::new(MosquittoHash::parse(secret)?))
        } else if let Some(refusal) = foreign_hash::refusal(secret) {
            return Err(refusal);
        } else {
            StoredPassword::plain(secret.as_bytes())
        };
        user.password.replace(password).is_some()
    };
    if before {
        return Err("this user exists twice");
    }
    Ok(is_new.then_some(name))
}

/// Returns why a text cannot be a plain password: it is a hash, and would let in every reader of the hash.
fn plain_password_refusal(text: &str) -> Option<&'static str> {
    const HASH: &str = "this is a hash, and the file of one user holds the password itself: name it with --users-file, behind NAME:";
    let is_known = PasswordHash::has_prefix(text)
        || MosquittoHash::has_prefix(text)
        || ScramKeys::has_prefix(text);
    if is_known {
        Some(HASH)
    } else {
        foreign_hash::refusal(text)
    }
}

/// Reads a file that holds one password, without the line end.
pub fn read_password(path: &Path) -> Result<Zeroizing<String>, UsersError> {
    let mut text = read(path)?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.ends_with('\r') {
        text.pop();
    }
    if text.is_empty() {
        return Err(UsersError::Empty { path: path.into() });
    }
    Ok(text)
}

/// Reads a file of passwords. Logs a warning if others may read or change it.
fn read(path: &Path) -> Result<Zeroizing<String>, UsersError> {
    read_tracker::record_path(path);
    let read = || {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.permissions().mode() & OTHERS_READ_OR_WRITE != 0 {
            tracing::warn!(
                "every user of this machine may read or change the passwords in {path}: chmod o-rw {path}",
                path = path.display()
            );
        }
        // Room for the whole file: a buffer that grows leaves copies behind.
        let capacity = usize::try_from(metadata.len()).unwrap_or(0) + 64;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        file.read_to_end(&mut bytes)?;
        // Some editors begin UTF-8 text with a byte order mark.
        if bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
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
