//! Checks that take too long for the thread that serves all clients: hashes of passwords, and signatures.
use super::user::User;
use super::{
    ClientCertificate, HashingMemory, Login, Principal, TokenVerifier, VerifiedCredential,
};
use bytes::Bytes;
use statestored_common::ClockReading;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A check of credentials, which can run on any thread.
pub struct VerificationJob(pub(crate) Check);

/// The check of a job.
pub(crate) enum Check {
    /// Check of a user's password.
    Password {
        user: Arc<User>,
        password: Bytes,
        certificate: Option<Arc<ClientCertificate>>,
    },
    /// Check of a password that cannot be right, which takes as long as one for this user.
    UnknownUser { like: Arc<User>, password: Bytes },
    /// Check of a token.
    Token {
        tokens: Arc<TokenVerifier>,
        token: Bytes,
        now: ClockReading,
    },
}

/// Result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationOutcome {
    /// The login is accepted.
    Accepted(Box<Login>),
    /// The login is refused, with the reason for the log.
    Refused(&'static str),
    /// The credentials could not be checked.
    Unavailable(&'static str),
}

impl VerificationJob {
    /// Returns the bytes of memory for hashing that the job needs.
    pub fn hashing_bytes(&self) -> usize {
        match &self.0 {
            Check::Password { user, .. } | Check::UnknownUser { like: user, .. } => {
                user.hashing_bytes()
            }
            Check::Token { .. } => 0,
        }
    }

    /// Returns whether the job is a check of the password of a user that does not exist, which is refused in any case.
    pub fn is_for_unknown_user(&self) -> bool {
        matches!(self.0, Check::UnknownUser { .. })
    }

    /// Runs the job. Blocks for tens of milliseconds.
    pub fn run(self, memory: &mut HashingMemory) -> VerificationOutcome {
        // The waiting client gets a verdict even if the check panics.
        catch_unwind(AssertUnwindSafe(|| self.verify(memory))).unwrap_or_else(|_| {
            tracing::error!("a login panicked: this is a bug, please report it");
            VerificationOutcome::Unavailable("the credentials could not be looked at")
        })
    }

    fn verify(self, memory: &mut HashingMemory) -> VerificationOutcome {
        const NO_MEMORY: VerificationOutcome =
            VerificationOutcome::Unavailable("there is no memory to look at the password");
        match self.0 {
            Check::Password {
                user,
                password,
                certificate,
            } => match user.verify(&password, memory) {
                Ok(true) => {
                    VerificationOutcome::Accepted(Box::new(user.login(certificate.as_deref())))
                }
                Ok(false) => VerificationOutcome::Refused("wrong user name or password"),
                Err(_) => NO_MEMORY,
            },
            Check::UnknownUser { like, password } => match like.verify_decoy(&password, memory) {
                Ok(()) => VerificationOutcome::Refused("wrong user name or password"),
                Err(_) => NO_MEMORY,
            },
            Check::Token { tokens, token, now } => match tokens.check(&token, now) {
                Ok(login) => VerificationOutcome::Accepted(Box::new(login)),
                Err(why) => VerificationOutcome::Refused(why),
            },
        }
    }
}

impl fmt::Debug for VerificationJob {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Check::Password { .. } => "VerificationJob::Password",
            Check::UnknownUser { .. } => "VerificationJob::UnknownUser",
            Check::Token { .. } => "VerificationJob::Token",
        })
    }
}

impl User {
    /// Returns the login of a user who has proven its password, with the attributes of its certificate.
    pub(super) fn login(&self, certificate: Option<&ClientCertificate>) -> Login {
        let attributes = certificate.map(ClientCertificate::attributes);
        let name = Some(Arc::clone(self.name()));
        let principal = Principal::with_attributes(name, attributes.unwrap_or_default());
        Login::new(principal, VerifiedCredential::Password)
    }
}
