//! Who may connect.
use super::{Principal, Users, UsersSource};
use statestore_protocol::mqtt::ReasonCode;
use std::fmt;

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

    /// Where its users were read from.
    pub fn source(&self) -> Option<&UsersSource> {
        match self {
            Self::Anonymous => None,
            Self::Users(users) => users.source(),
        }
    }

    /// What somebody is to this one who was accepted by a former one.
    pub(crate) fn standing(&self, former: &Self, principal: &Principal) -> Standing {
        let (Self::Users(users), Some(name)) = (self, principal.name()) else {
            return if self.is_anonymous() == principal.name().is_none() {
                Standing::Same
            } else {
                Standing::Unknown
            };
        };
        match former {
            _ if !users.contains(name) => Standing::Unknown,
            Self::Users(former) if users.has_same_password(former, name) => Standing::Same,
            _ => Standing::OtherPassword,
        }
    }

    /// Whether everybody may connect.
    pub fn is_anonymous(&self) -> bool {
        matches!(self, Self::Anonymous)
    }
}

/// What somebody who was accepted is after the users have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The same as before.
    Same,
    /// A user with another password.
    OtherPassword,
    /// Nobody.
    Unknown,
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
