//! Authentication of clients that connect.
use super::scram::{self, ClientFirst};
use super::token;
use super::user::{FastCheck, User};
use super::verification::{Check, VerificationJob};
use super::{
    ClientCertificate, Login, Principal, ScramExchange, TokenVerifier, Users, VerifiedCredential,
};
use bytes::Bytes;
use statestore_protocol::mqtt::ReasonCode;
use statestored_common::ClockReading;
use std::fmt;
use std::sync::Arc;

/// Credentials of a CONNECT.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// User name, if sent.
    pub user_name: Option<&'a str>,
    /// Password, if sent.
    pub password: Option<&'a Bytes>,
    /// Method and data of an enhanced authentication, if one is asked for (MQTT 5, section 4.12).
    pub authentication: Option<(&'a str, &'a Bytes)>,
    /// Certificate that the client presented in the TLS handshake.
    pub certificate: Option<&'a Arc<ClientCertificate>>,
}

impl Credentials<'_> {
    fn has_password(&self) -> bool {
        self.user_name.is_some() || self.password.is_some()
    }
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user_name", &self.user_name)
            .field("password", &self.password.map(|_| "…"))
            .field("method", &self.authentication.map(|(method, _)| method))
            .field("certificate", &self.certificate)
            .finish()
    }
}

/// Which part of a certificate is the name of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum CertificateName {
    /// No user name, only attributes.
    None,
    /// Common name of the subject.
    CommonName,
    /// Whole subject, as in RFC 4514.
    Subject,
    /// First alternative name that is a DNS name.
    Dns,
    /// First alternative name that is a URI.
    Uri,
    /// First alternative name that is an e-mail address.
    Email,
}

impl CertificateName {
    fn user_name(self, certificate: &ClientCertificate) -> Result<Option<Arc<str>>, LoginRefusal> {
        let name = match self {
            Self::None => return Ok(None),
            Self::CommonName => certificate.common_name.as_ref(),
            Self::Subject => Some(&certificate.subject),
            Self::Dns => certificate.dns.first(),
            Self::Uri => certificate.uri.first(),
            Self::Email => certificate.email.first(),
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            let why = "the certificate does not have the part that names the user";
            return Err((ReasonCode::NOT_AUTHORIZED, why));
        };
        if name.starts_with(SERVICE_ACCOUNT_PREFIX) {
            let why = "names of service accounts are for tokens";
            return Err((ReasonCode::NOT_AUTHORIZED, why));
        }
        Ok(Some(name.as_str().into()))
    }
}

/// Prefix of the names of service accounts. Only tokens give such names.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Reason why a login is refused: the reason code, and a text for the log and the client.
pub type LoginRefusal = (ReasonCode, &'static str);

const BAD_CREDENTIALS: LoginRefusal = (
    ReasonCode::BAD_USER_NAME_OR_PASSWORD,
    "the credentials are not accepted",
);
const METHOD_NOT_OFFERED: LoginRefusal = (
    ReasonCode::BAD_AUTHENTICATION_METHOD,
    "this authentication method is not offered",
);
const BUSY: LoginRefusal = (
    ReasonCode::SERVER_BUSY,
    "the credentials cannot be looked at now",
);

/// Next step of a login.
#[derive(Debug)]
pub enum LoginStep {
    /// The login is accepted. The text proves the server to the client, if the method does that.
    Accepted(Box<Login>, Option<String>),
    /// The login is refused.
    Refused(LoginRefusal),
    /// A job has to decide the login.
    Verify(VerificationJob),
    /// The client is sent this challenge. Its answer goes with the exchange to [`Authenticator::continue_login`].
    Challenge(String, Box<ScramExchange>),
}

impl LoginStep {
    fn accepted(login: Login) -> Self {
        Self::Accepted(Box::new(login), None)
    }
}

/// Pace at which a login may be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginPacing {
    /// At once: a password cannot be guessed by it, or not before the client has answered a challenge.
    Unthrottled,
    /// In turn: the login waits in line first. True if the check is a [job](LoginStep::Verify).
    Throttled(bool),
}

/// Authentication methods that are accepted: passwords of users, tokens and certificates, each if it is configured.
/// Without any configured method, every client is accepted.
///
/// | a CONNECT with | is accepted |
/// |---|---|
/// | the method `K8S-SAT` | if tokens are configured, and the token is accepted |
/// | the method `SCRAM-SHA-256` | if users with SCRAM keys are configured, and the client proves the password of one |
/// | another method | never: "bad authentication method" |
/// | user name or password | if users are configured, and the credentials are those of one |
/// | a certificate, nothing else | if certificates are configured |
/// | anything | if nothing is configured |
///
/// # Client ids
/// A client id that is a user's name, or begins with one followed by `/`, `:`, `.`, `-`, `_` or `@`, is reserved for
/// that user. If several names fit, the longest counts. Any other client id belongs to the user whose client is
/// connected with it: other users are refused meanwhile. A session without a connection does not reserve its client id.
/// It ends when another user connects with that client id.
#[derive(Debug, Clone, Default)]
pub struct Authenticator {
    users: Option<Users>,
    tokens: Option<Arc<TokenVerifier>>,
    certificates: Option<CertificateName>,
}

impl From<Users> for Authenticator {
    fn from(users: Users) -> Self {
        Self {
            users: Some(users),
            ..Self::default()
        }
    }
}

impl Authenticator {
    /// Returns an authenticator that accepts every client, and ignores user names and passwords.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Accepts tokens as well.
    #[must_use]
    pub fn with_tokens(self, tokens: TokenVerifier) -> Self {
        Self {
            tokens: Some(Arc::new(tokens)),
            ..self
        }
    }

    /// Accepts client certificates as well, without a user name, password or method.
    #[must_use]
    pub fn with_certificates(self, name: CertificateName) -> Self {
        Self {
            certificates: Some(name),
            ..self
        }
    }

    /// Returns the users, if any are configured.
    pub fn users(&self) -> Option<&Users> {
        self.users.as_ref()
    }

    /// Returns whether every client may connect.
    pub fn is_anonymous(&self) -> bool {
        self.users.is_none() && self.tokens.is_none() && self.certificates.is_none()
    }

    /// Returns the pace at which a login may be checked.
    pub fn pacing(&self, credentials: Credentials<'_>) -> LoginPacing {
        match credentials.authentication {
            Some((token::METHOD, _)) if self.tokens.is_some() => LoginPacing::Throttled(true),
            Some(_) => LoginPacing::Unthrottled,
            None if self.is_anonymous() || !credentials.has_password() => LoginPacing::Unthrottled,
            None => LoginPacing::Throttled(matches!(
                self.check_password(credentials),
                LoginStep::Verify(_)
            )),
        }
    }

    /// Returns the user name that the credentials claim, if they claim one.
    pub fn claimed_user_name(credentials: Credentials<'_>) -> Option<String> {
        match credentials.authentication {
            Some((scram::METHOD, data)) => ClientFirst::parse(data).map(|first| first.name),
            Some(_) => None,
            None => credentials.user_name.map(Into::into),
        }
    }

    /// Begins a login. May reveal whether a password is right, so the login must have had its turn.
    pub fn begin(&self, credentials: Credentials<'_>, now: ClockReading) -> LoginStep {
        match credentials.authentication {
            Some((token::METHOD, data)) => match &self.tokens {
                Some(tokens) => LoginStep::Verify(VerificationJob(Check::Token {
                    tokens: Arc::clone(tokens),
                    token: data.clone(),
                    now,
                })),
                None => LoginStep::Refused(METHOD_NOT_OFFERED),
            },
            Some((scram::METHOD, data)) => self.begin_scram(data),
            Some(_) => LoginStep::Refused(METHOD_NOT_OFFERED),
            None if self.is_anonymous() => LoginStep::accepted(match credentials.certificate {
                Some(certificate) => Login::new(
                    Principal::certificate(None, certificate),
                    VerifiedCredential::Anonymous,
                ),
                None => Login::new(Principal::default(), VerifiedCredential::Anonymous),
            }),
            None => match (self.certificates, credentials.certificate) {
                (Some(name), Some(certificate)) if !credentials.has_password() => {
                    match name.user_name(certificate) {
                        Ok(name) => LoginStep::accepted(Login::new(
                            Principal::certificate(name, certificate),
                            VerifiedCredential::Certificate,
                        )),
                        Err(refusal) => LoginStep::Refused(refusal),
                    }
                }
                _ => self.check_password(credentials),
            },
        }
    }

    fn check_password(&self, credentials: Credentials<'_>) -> LoginStep {
        let Some(users) = &self.users else {
            return LoginStep::Refused(BAD_CREDENTIALS);
        };
        let empty = Bytes::new();
        let password = credentials.password.unwrap_or(&empty);
        let user = credentials
            .user_name
            .filter(|_| credentials.password.is_some())
            .and_then(|name| users.get(name));
        match user.map(|user| (user, user.check_fast(password))) {
            Some((user, FastCheck::Match)) => {
                LoginStep::accepted(user.login(credentials.certificate.map(Arc::as_ref)))
            }
            Some((user, FastCheck::Unknown)) => {
                LoginStep::Verify(VerificationJob(Check::Password {
                    user: Arc::clone(user),
                    password: password.clone(),
                    certificate: credentials.certificate.cloned(),
                }))
            }
            Some((_, FastCheck::Mismatch)) | None => match users.hashed_reference() {
                Some(like) => LoginStep::Verify(VerificationJob(Check::UnknownUser {
                    like: Arc::clone(like),
                    password: password.clone(),
                })),
                None => LoginStep::Refused(BAD_CREDENTIALS),
            },
        }
    }

    fn begin_scram(&self, data: &[u8]) -> LoginStep {
        let Some(users) = &self.users else {
            return LoginStep::Refused(METHOD_NOT_OFFERED);
        };
        let Some(first) = ClientFirst::parse(data) else {
            return LoginStep::Refused(BAD_CREDENTIALS);
        };
        let Some((keys, is_known)) = users.scram_keys(&first.name) else {
            return LoginStep::Refused(METHOD_NOT_OFFERED);
        };
        match ScramExchange::begin(&first, keys, is_known) {
            Some((challenge, exchange)) => LoginStep::Challenge(challenge, Box::new(exchange)),
            None => LoginStep::Refused(BUSY),
        }
    }

    /// Continues a login with the client's answer to a challenge.
    pub fn continue_login(
        &self,
        exchange: &ScramExchange,
        answer: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> LoginStep {
        let users = self.users.as_ref();
        let user = users.and_then(|users| users.get(exchange.name()));
        match (user, exchange.finish(answer)) {
            // The keys may have changed since the challenge.
            (Some(user), Some(proof)) if exchange.uses_keys(user.scram_keys.as_ref()) => {
                let login = Login {
                    credential: VerifiedCredential::Scram,
                    ..user.login(certificate)
                };
                LoginStep::Accepted(Box::new(login), Some(proof))
            }
            _ => LoginStep::Refused(BAD_CREDENTIALS),
        }
    }

    /// Returns whether the principal may connect with this client id.
    pub fn allows_client_id(&self, principal: &Principal, client_id: &str) -> bool {
        let users = self.users.as_ref();
        users
            .and_then(|users| users.owner_of_client_id(client_id))
            .is_none_or(|owner| Some(owner) == principal.name())
    }

    /// Returns the standing under this authenticator of a client that a former authenticator accepted.
    pub fn grant(
        &self,
        former: &Self,
        principal: &Principal,
        proof: &VerifiedCredential,
    ) -> ClientGrant {
        let is_same = match proof {
            VerifiedCredential::Anonymous => {
                return ClientGrant::valid_or_revoked(self.is_anonymous());
            }
            VerifiedCredential::Certificate => {
                return ClientGrant::valid_or_revoked(self.certificates == former.certificates);
            }
            VerifiedCredential::Token(signed) => match &self.tokens {
                Some(tokens) => tokens.accepts(signed),
                None => return ClientGrant::Revoked,
            },
            proof => {
                let of = |of: &Self| -> Option<Arc<User>> {
                    of.users.as_ref()?.get(principal.name()?).cloned()
                };
                let Some(user) = of(self) else {
                    return ClientGrant::Revoked;
                };
                of(former).is_some_and(|former| match proof {
                    VerifiedCredential::Scram => former.scram_keys == user.scram_keys,
                    _ => former.password == user.password,
                })
            }
        };
        if is_same {
            ClientGrant::Valid
        } else {
            ClientGrant::Reauthenticate
        }
    }
}

/// Standing of an accepted client after the users have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientGrant {
    /// The same as before.
    Valid,
    /// Still known, but must prove it again: the password is a different one, or the key of the token is gone.
    Reauthenticate,
    /// Not accepted any more.
    Revoked,
}

impl ClientGrant {
    fn valid_or_revoked(is_same: bool) -> Self {
        if is_same { Self::Valid } else { Self::Revoked }
    }
}

#[cfg(test)]
mod tests;
