//! The tokens of the HTTP port by role.
use super::{AdminConfigError, Token};
use std::sync::{Arc, PoisonError, RwLock};

/// Role of a token, and therefore of a client that sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenRole {
    /// Metrics and health.
    Metrics,
    /// All lists, keys and values, but no changes.
    Read,
    /// Everything.
    Operate,
}

impl TokenRole {
    /// All roles.
    const ALL: [Self; 3] = [Self::Metrics, Self::Read, Self::Operate];

    /// Returns the name of the option that names the file of the token.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Metrics => "http-metrics-token-file",
            Self::Read => "http-read-token-file",
            Self::Operate => "http-token-file",
        }
    }
}

/// The tokens of the HTTP port by role, each optional.
#[derive(Debug, Clone, Default)]
pub struct HttpTokens {
    /// Token for `/metrics`, `/api/status` and the reasons of health checks.
    pub metrics: Option<Token>,
    /// Token for all lists, keys and values, but no changes.
    pub read: Option<Token>,
    /// Token for everything.
    pub operate: Option<Token>,
}

impl HttpTokens {
    fn of_role(&self, role: TokenRole) -> Option<&Token> {
        match role {
            TokenRole::Metrics => self.metrics.as_ref(),
            TokenRole::Read => self.read.as_ref(),
            TokenRole::Operate => self.operate.as_ref(),
        }
    }

    /// Returns whether no role has a token.
    pub(crate) fn is_empty(&self) -> bool {
        TokenRole::ALL
            .iter()
            .all(|role| self.of_role(*role).is_none())
    }

    /// Checks that each token has one role.
    ///
    /// # Errors
    /// Two roles have the same token. The error does not contain the token.
    pub(crate) fn check(&self) -> Result<(), AdminConfigError> {
        let pairs = [
            (TokenRole::Metrics, TokenRole::Read),
            (TokenRole::Metrics, TokenRole::Operate),
            (TokenRole::Read, TokenRole::Operate),
        ];
        for (one, other) in pairs {
            if let (Some(token), Some(same)) = (self.of_role(one), self.of_role(other))
                && token.equals(same)
            {
                return Err(AdminConfigError::Options(format!(
                    "--{} and --{} have the same token: each role needs a token of its own",
                    one.option(),
                    other.option()
                )));
            }
        }
        Ok(())
    }

    /// Returns the roles whose tokens differ from those in `other`.
    pub(crate) fn changed_roles(&self, other: &Self) -> Vec<TokenRole> {
        let is_changed = |role: &TokenRole| match (self.of_role(*role), other.of_role(*role)) {
            (Some(token), Some(other)) => !token.equals(other),
            (None, None) => false,
            _ => true,
        };
        TokenRole::ALL.into_iter().filter(is_changed).collect()
    }
}

/// The tokens in force. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ActiveTokens(Arc<RwLock<HttpTokens>>);

impl ActiveTokens {
    pub(crate) fn new(tokens: HttpTokens) -> Self {
        Self(Arc::new(RwLock::new(tokens)))
    }

    /// Returns the tokens.
    pub(crate) fn get(&self) -> HttpTokens {
        // The value is always consistent.
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tokens.clone()
    }

    /// Replaces the tokens, for later requests. Returns the roles whose tokens have changed.
    pub(crate) fn replace(&self, tokens: HttpTokens) -> Vec<TokenRole> {
        let mut in_force = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = in_force.changed_roles(&tokens);
        *in_force = tokens;
        changed
    }

    /// Returns the role of the token that a client has sent, in a time that depends only on the lengths.
    pub(crate) fn role_of(&self, given: &[u8]) -> Option<TokenRole> {
        let tokens = self.get();
        let mut role = None;
        for candidate in TokenRole::ALL {
            let token = tokens.of_role(candidate);
            if token.is_some_and(|token| token.matches(given)) {
                role = Some(candidate);
            }
        }
        role
    }

    /// Returns whether no role has a token.
    pub(crate) fn is_empty(&self) -> bool {
        self.get().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = [
        "metrics-0123456789",
        "reading-0123456789",
        "operate-0123456789",
    ];

    fn tokens() -> HttpTokens {
        let [metrics, read, operate] = NAMES.map(|text| Some(Token::new(text).unwrap()));
        HttpTokens {
            metrics,
            read,
            operate,
        }
    }

    #[test]
    fn a_token_has_its_role_until_it_is_replaced() {
        let active = ActiveTokens::new(tokens());
        let in_use = active.clone();
        for (name, role) in NAMES.into_iter().zip(TokenRole::ALL) {
            assert_eq!(in_use.role_of(name.as_bytes()), Some(role));
        }
        assert_eq!(in_use.role_of(b"another-0123456789"), None);
        let rotated = HttpTokens {
            metrics: None,
            read: Some(Token::new("rotated-0123456789").unwrap()),
            ..tokens()
        };
        let changed = active.replace(rotated.clone());
        assert_eq!(changed, [TokenRole::Metrics, TokenRole::Read]);
        assert!(active.replace(rotated).is_empty());
        assert_eq!(in_use.role_of(NAMES[0].as_bytes()), None);
        assert_eq!(in_use.role_of(NAMES[1].as_bytes()), None);
        assert_eq!(in_use.role_of(b"rotated-0123456789"), Some(TokenRole::Read));
        assert!(!in_use.is_empty());
        active.replace(HttpTokens::default());
        assert!(in_use.is_empty());
    }

    #[test]
    fn two_roles_cannot_have_the_same_token() {
        tokens().check().unwrap();
        let same = HttpTokens {
            read: tokens().operate,
            ..tokens()
        };
        let error = same.check().unwrap_err().to_string();
        assert!(
            error.contains("--http-read-token-file and --http-token-file"),
            "{error}"
        );
        assert!(!error.contains(NAMES[2]), "{error}");
    }
}
