//! Users, and the text that defines them.
use super::foreign_hash;
use super::hash::PasswordHash;
use super::mosquitto_hash::MosquittoHash;
use super::salt_key;
use super::scram::ScramKeys;
use super::user::{StoredPassword, User, secret};
use ring::hmac;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

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
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.by_name.len())
    }
}

/// An error in the text of users or of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, counted from 1.
        line: usize,
        /// The problem.
        problem: &'static str,
    },
    /// There is no user, or no password.
    #[error("it is empty")]
    Empty,
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

    /// Parses a text with one `NAME:PASSWORD` per line, where the password is one of
    ///
    /// - a hash of it, of argon2id in the PHC string format: `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`;
    /// - a hash of it as Mosquitto 2 writes it: `$7$ITERATIONS$SALT$HASH`;
    /// - keys for SCRAM, which may stand beside a hash: `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`;
    /// - the password itself. Hashes of other forms are rejected.
    ///
    /// A line `#scram-salts:KEY` has the key of the salts that SCRAM shows for unknown users. Without it, the key is
    /// derived from the first hash. Empty lines and other lines that begin with `#` are ignored. The password is
    /// everything after the first `:`.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let mut parsed = HashMap::new();
        let mut names = Vec::new();
        let mut salts = None;
        for (index, line) in text.lines().enumerate() {
            if salt_key::is_line(line) {
                let key = salt_key::parse_line(line).map_err(|problem| UsersError::Line {
                    line: index + 1,
                    problem,
                })?;
                salts = Some(key);
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let name = add_line(&mut parsed, line).map_err(|problem| UsersError::Line {
                line: index + 1,
                problem,
            })?;
            names.extend(name);
        }
        if parsed.is_empty() {
            return Err(UsersError::Empty);
        }
        let mut users = Self {
            decoy_salt_key: salts,
            ..Self::default()
        };
        // In the order of the file, which `statestored passwd` keeps: the first user with a hash or keys stays the
        // same.
        for name in names {
            if let Some(user) = parsed.remove(name) {
                users.insert(user);
            }
        }
        Ok(users)
    }

    /// Returns one user with this password.
    ///
    /// # Errors
    /// The text is a hash, not a password.
    pub fn single(name: &str, password: &str) -> Result<Self, UsersError> {
        if let Some(problem) = plain_password_refusal(password) {
            return Err(UsersError::Line { line: 1, problem });
        }
        let mut users = Self::default();
        users.add(name, password.as_bytes());
        Ok(users)
    }

    /// Returns the number of users whose password is known in plain text.
    pub fn plain_passwords(&self) -> usize {
        let is_plain = |user: &&Arc<User>| matches!(user.password, Some(StoredPassword::Plain(_)));
        self.by_name.values().filter(is_plain).count()
    }

    /// Returns whether the salts that SCRAM sends for unknown users change at each start, since the users have neither a
    /// key for these salts nor a hash to derive it from.
    pub fn has_temporary_decoy_salts(&self) -> bool {
        self.scram_reference.is_some() && self.decoy_salt_key.is_none()
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
