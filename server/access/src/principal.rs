//! Principals, on whose behalf clients act.
use super::ClientCertificate;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Principal on whose behalf a client acts: a party that the [`Authenticator`](super::Authenticator) knows, or an
/// anonymous client. Two principals are equal if their owners, names and attributes are. Whether they are the same
/// party depends on the [`owner`](Self::owner) alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<Identity>>);

/// Owner, name and attributes of a principal.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    owner: Owner,
    name: Option<Arc<str>>,
    attributes: BTreeMap<String, String>,
}

/// Owner of what a principal creates, such as its session. The owner stays the same when a certificate or a token is
/// renewed, whatever attributes change with that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Owner {
    /// An anonymous client.
    #[default]
    Anonymous,
    /// A user of this name, who has proven a password.
    User(Arc<str>),
    /// Holder of a certificate with this subject. Without a subject, the text is the first URI, DNS name or address of
    /// e-mail, or else the fingerprint.
    Certificate(Arc<str>),
    /// Holder of a token for this subject.
    Token(Arc<str>),
    /// A client of which only these attributes are known.
    Attributes(Arc<BTreeMap<String, String>>),
}

impl Owner {
    /// Returns the parts that identify the owner on all servers. Different owners have different parts;
    /// [`Anonymous`](Self::Anonymous) has none.
    pub fn identity_parts(&self) -> Vec<&[u8]> {
        let (kind, name) = match self {
            Self::Anonymous => return Vec::new(),
            Self::User(name) => ("user", name),
            Self::Certificate(subject) => ("certificate", subject),
            Self::Token(subject) => ("token", subject),
            Self::Attributes(attributes) => {
                let all = attributes.iter().flat_map(|(name, it)| [name, it]);
                let all = all.map(String::as_bytes);
                return std::iter::once(&b"described"[..]).chain(all).collect();
            }
        };
        vec![kind.as_bytes(), name.as_bytes()]
    }
}

impl Principal {
    /// Returns the principal of a user.
    pub fn user(name: Arc<str>) -> Self {
        Self::with_attributes(Some(name), BTreeMap::new())
    }

    /// Returns a principal with these attributes, with or without a user name.
    pub fn with_attributes(name: Option<Arc<str>>, attributes: BTreeMap<String, String>) -> Self {
        let owner = match &name {
            Some(name) => Owner::User(Arc::clone(name)),
            None => Owner::Attributes(Arc::new(attributes.clone())),
        };
        Self::new(owner, name, attributes)
    }

    /// Returns the principal of a certificate's holder, with or without a user name.
    pub fn certificate(name: Option<Arc<str>>, certificate: &ClientCertificate) -> Self {
        let subject = [&certificate.subject]
            .into_iter()
            .filter(|subject| !subject.is_empty())
            .chain(certificate.uri.first())
            .chain(certificate.dns.first())
            .chain(certificate.email.first())
            .next()
            .unwrap_or(&certificate.fingerprint);
        let owner = Owner::Certificate(subject.as_str().into());
        Self::new(owner, name, certificate.attributes())
    }

    /// Returns the principal of a token's holder, with the attributes of the token.
    pub fn token(subject: Arc<str>, attributes: BTreeMap<String, String>) -> Self {
        Self::new(
            Owner::Token(Arc::clone(&subject)),
            Some(subject),
            attributes,
        )
    }

    fn new(owner: Owner, name: Option<Arc<str>>, attributes: BTreeMap<String, String>) -> Self {
        Self(Some(Arc::new(Identity {
            owner,
            name,
            attributes,
        })))
    }

    /// Returns the user name, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref()?.name.as_deref()
    }

    /// Returns the value of an attribute, if there is one of this name.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let attributes = &self.0.as_ref()?.attributes;
        attributes.get(name).map(String::as_str)
    }

    /// Returns the owner of what the principal creates.
    pub fn owner(&self) -> &Owner {
        match &self.0 {
            Some(identity) => &identity.owner,
            None => &Owner::Anonymous,
        }
    }

    /// Returns whether both are the same party: the same kind of owner, with the same name or subject.
    pub fn has_same_owner(&self, other: &Self) -> bool {
        self.owner() == other.owner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewing_a_certificate_or_token_keeps_the_owner() {
        let certificate = |subject: &str, fingerprint: &str| ClientCertificate {
            subject: subject.into(),
            uri: vec!["spiffe://plant/pump".into()],
            fingerprint: fingerprint.into(),
            ..ClientCertificate::default()
        };
        let ann: Arc<str> = "ann".into();
        let old = Principal::certificate(None, &certificate("CN=ann", "1"));
        let new = Principal::certificate(None, &certificate("CN=ann", "2"));
        assert!(old != new && old.has_same_owner(&new));
        let of = |pod: &str| BTreeMap::from([("pod".to_owned(), pod.to_owned())]);
        let old = Principal::token(Arc::clone(&ann), of("1"));
        let new = Principal::token(Arc::clone(&ann), of("2"));
        assert!(old != new && old.has_same_owner(&new));
        let all = [
            Principal::default(),
            Principal::user(Arc::clone(&ann)),
            Principal::user("bob".into()),
            new,
            Principal::token("bob".into(), of("1")),
            Principal::certificate(Some(ann), &certificate("CN=ann", "1")),
            Principal::certificate(None, &certificate("CN=bob", "1")),
            Principal::certificate(None, &certificate("", "1")),
            Principal::with_attributes(None, of("1")),
            Principal::with_attributes(None, of("2")),
        ];
        for (index, one) in all.iter().enumerate() {
            for (other, principal) in all.iter().enumerate() {
                assert_eq!(
                    one.has_same_owner(principal),
                    index == other,
                    "{one:?} {principal:?}"
                );
                let is_named_so =
                    one.owner().identity_parts() == principal.owner().identity_parts();
                assert_eq!(is_named_so, index == other, "{one:?} {principal:?}");
            }
        }
    }
}
