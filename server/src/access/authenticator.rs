//! Who may connect.
use super::Principal;
use statestore_protocol::mqtt::ReasonCode;
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

/// What a CONNECT says about its sender.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// User name, if sent.
    pub user_name: Option<&'a str>,
    /// Password, if sent.
    pub password: Option<&'a [u8]>,
    /// The method of an enhanced authentication, if one is asked for (MQTT 5, section 4.12).
    pub method: Option<&'a str>,
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user_name", &self.user_name)
            .field("password", &self.password.map(|_| "…"))
            .field("method", &self.method)
            .finish()
    }
}

/// Decides who may connect.
///
/// An enhanced authentication is refused with "bad authentication method": no method is offered.
///
/// # Client ids
/// Where users are known, a client id that is a user's name, or begins with one and a `/`, `:`, `.`, `-`, `_` or `@`
/// behind it, is for that user alone; if several names fit, the longest counts. Any other client id is for whoever
/// uses it: nobody else gets it while its client is connected. A session that waits for its client does not keep
/// the id from another user: it ends then.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Authenticator {
    /// Everybody. A user name and a password are not looked at.
    #[default]
    Anonymous,
    /// Those who know the password of one of these users.
    Users(Users),
}

impl Authenticator {
    /// In whose name the client acts; or the reason code of the refusal.
    pub fn authenticate(&self, credentials: Credentials<'_>) -> Result<Principal, ReasonCode> {
        if credentials.method.is_some() {
            return Err(ReasonCode::BAD_AUTHENTICATION_METHOD);
        }
        match self {
            Self::Anonymous => Ok(Principal::default()),
            Self::Users(users) => users
                .check(credentials)
                .map(Principal::user)
                .ok_or(ReasonCode::BAD_USER_NAME_OR_PASSWORD),
        }
    }

    /// Whether somebody may connect with this client id.
    pub(crate) fn allows_client_id(&self, principal: &Principal, client_id: &str) -> bool {
        match self {
            Self::Anonymous => true,
            Self::Users(users) => users
                .owner(client_id)
                .is_none_or(|owner| Some(owner) == principal.name()),
        }
    }

    /// Whether everybody may connect.
    pub fn is_anonymous(&self) -> bool {
        matches!(self, Self::Anonymous)
    }
}

/// Users with their passwords.
#[derive(Clone, Default)]
pub struct Users {
    passwords: HashMap<Arc<str>, Zeroizing<Box<[u8]>>>,
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
        Ok(users)
    }

    /// The user for whom this client id is reserved.
    fn owner(&self, client_id: &str) -> Option<&str> {
        let ends = client_id
            .match_indices(['/', ':', '.', '-', '_', '@'])
            .map(|(end, _)| end);
        let mut names = std::iter::once(client_id.len())
            .chain(ends.rev())
            .map(|end| &client_id[..end]);
        let (name, _) = names.find_map(|name| self.passwords.get_key_value(name))?;
        Some(name)
    }

    fn check(&self, credentials: Credentials<'_>) -> Option<Arc<str>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials<'a>(user_name: Option<&'a str>, password: Option<&'a str>) -> Credentials<'a> {
        Credentials {
            user_name,
            password: password.map(str::as_bytes),
            method: None,
        }
    }

    #[test]
    fn only_the_right_password_of_a_known_user_is_accepted() {
        let mut users = Users::default();
        assert!(users.add("ann", b"secret") && !users.add("ann", b"other"));
        let authenticator = Authenticator::Users(users);
        let user = authenticator
            .authenticate(credentials(Some("ann"), Some("secret")))
            .unwrap();
        assert_eq!(user.name(), Some("ann"));
        for (name, password) in [
            (Some("ann"), Some("secre")),
            (Some("ann"), Some("secret2")),
            (Some("ann"), Some("")),
            (Some("ann"), None),
            (Some("bob"), Some("secret")),
            (None, Some("secret")),
            (None, None),
        ] {
            assert_eq!(
                authenticator.authenticate(credentials(name, password)),
                Err(ReasonCode::BAD_USER_NAME_OR_PASSWORD),
            );
        }
    }

    #[test]
    fn client_ids_with_the_name_of_a_user_are_for_that_user() {
        let mut users = Users::default();
        for user in ["ann", "ann-b", "x/y"] {
            users.add(user, b"secret");
        }
        let authenticator = Authenticator::Users(users);
        for (client_id, owner) in [
            ("ann", Some("ann")),
            ("ann-1", Some("ann")),
            ("ann-bc", Some("ann")),
            ("ann-b", Some("ann-b")),
            ("ann-b.7-c", Some("ann-b")),
            ("ann/", Some("ann")),
            ("x/y:z", Some("x/y")),
            ("anna", None),
            ("x/z", None),
            ("-ann", None),
            ("", None),
            ("ö-ann", None),
        ] {
            for user in ["ann", "ann-b", "x/y"] {
                let principal = Principal::user(user.into());
                let is_allowed = authenticator.allows_client_id(&principal, client_id);
                assert_eq!(
                    is_allowed,
                    owner.is_none_or(|owner| owner == user),
                    "{client_id} {user}"
                );
            }
        }
        assert!(Authenticator::Anonymous.allows_client_id(&Principal::default(), "ann"));
    }

    #[test]
    fn enhanced_authentication_is_refused() {
        let asked = Credentials {
            method: Some("K8S-SAT"),
            ..credentials(None, None)
        };
        assert_eq!(
            Authenticator::Anonymous.authenticate(asked),
            Err(ReasonCode::BAD_AUTHENTICATION_METHOD),
        );
    }
}
