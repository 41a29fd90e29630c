//! Service account tokens: JSON Web Tokens (RFC 7519), signed with a key of a set that the server knows.
use super::jwks::{Key, KeySource};
use super::{AcceptedToken, Login, Principal, VerifiedCredential};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};
use statestored_common::ClockReading;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The authentication method of a token (MQTT 5, section 4.12).
pub(super) const METHOD: &str = "K8S-SAT";

/// Maximum leeway for clock differences, in seconds.
pub const MAX_LEEWAY_S: u64 = 60;

/// Maximum length of a subject, in bytes.
const MAX_SUBJECT_BYTES: usize = 1024;

/// Rules for the tokens that are accepted.
#[derive(Debug)]
pub struct TokenVerifier {
    keys: Box<dyn KeySource>,
    issuer: String,
    audiences: Vec<String>,
    leeway_s: u64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// Claims of a token. The `kubernetes.io` claim is not needed to accept it, and is read later.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: NumericDate,
    nbf: NumericDate,
    #[serde(rename = "kubernetes.io", default)]
    kubernetes: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Seconds since the Unix epoch, optionally with a fraction.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumericDate {
    Whole(u64),
    Fraction(f64),
}

impl NumericDate {
    /// Returns Unix milliseconds. A negative number counts as 0.
    fn milliseconds(&self) -> u64 {
        match *self {
            Self::Whole(seconds) => seconds.saturating_mul(1000),
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the conversion saturates"
            )]
            Self::Fraction(seconds) => (seconds * 1000.0) as u64,
        }
    }
}

impl TokenVerifier {
    /// Accepts tokens that one of these keys has signed, of this issuer and for at least one of these audiences. Clocks
    /// may differ by `leeway_s` seconds, at most [`MAX_LEEWAY_S`].
    pub fn new(
        keys: impl KeySource + 'static,
        issuer: &str,
        audiences: impl IntoIterator<Item = String>,
        leeway_s: u64,
    ) -> Self {
        Self {
            keys: Box::new(keys),
            issuer: issuer.into(),
            audiences: audiences.into_iter().collect(),
            leeway_s: leeway_s.min(MAX_LEEWAY_S),
        }
    }

    /// Returns whether a token with this signature would still be accepted.
    pub(super) fn accepts(&self, signed: &AcceptedToken) -> bool {
        signed.issuer == self.issuer
            && self.has_audience(&signed.audiences)
            && self.keys.known_keys().contains(&signed.key)
    }

    fn has_audience(&self, audiences: &[String]) -> bool {
        audiences.iter().any(|one| self.audiences.contains(one))
    }

    /// Verifies a token, and returns the principal of its holder.
    ///
    /// # Errors
    /// Returns why the token is not accepted.
    pub fn verify(&self, token: &[u8], now: ClockReading) -> Result<Principal, &'static str> {
        self.check(token, now).map(|login| login.principal)
    }

    /// Verifies a token, and returns the login of its holder, or why it is not accepted. Blocks while the source of keys
    /// does.
    pub(super) fn check(&self, token: &[u8], now: ClockReading) -> Result<Login, &'static str> {
        let token = token.strip_suffix(b"\n").unwrap_or(token);
        let token = std::str::from_utf8(token).map_err(|_| "it is not a token")?;
        let (signed, signature) = token.rsplit_once('.').ok_or("it is not a token")?;
        let (header, claims) = signed.split_once('.').ok_or("it is not a token")?;
        let decode = |part| {
            URL_SAFE_NO_PAD
                .decode(part)
                .map_err(|_| "it is not a token")
        };
        let (header, claims, signature) = (decode(header)?, decode(claims)?, decode(signature)?);
        let header: Header =
            serde_json::from_slice(&header).map_err(|_| "its header is not understood")?;
        if header.crit.is_some() {
            return Err("it demands an extension");
        }
        let keys = self.keys.current_keys(now.mono_ms);
        let mut candidates = keys.by_id(header.kid.as_deref()).peekable();
        if candidates.peek().is_none() {
            return Err("its key is unknown");
        }
        let key = candidates
            .find(|key| key.verify(&header.alg, signed.as_bytes(), &signature))
            .ok_or("its signature is wrong")?;
        let claims: Claims =
            serde_json::from_slice(&claims).map_err(|_| "a claim is missing or not possible")?;
        self.check_claims(claims, key, now)
    }

    fn check_claims(
        &self,
        claims: Claims,
        key: &Arc<Key>,
        now: ClockReading,
    ) -> Result<Login, &'static str> {
        let leeway_ms = self.leeway_s * 1000;
        let audiences = match claims.aud {
            Audience::One(audience) => vec![audience],
            Audience::Many(audiences) => audiences,
        };
        if claims.iss != self.issuer {
            return Err("it has another issuer");
        }
        if !self.has_audience(&audiences) {
            return Err("it is for another audience");
        }
        let until_ms = claims.exp.milliseconds().saturating_add(leeway_ms);
        if until_ms <= now.wall_ms {
            return Err("it has expired");
        }
        if claims.nbf.milliseconds() > now.wall_ms.saturating_add(leeway_ms) {
            return Err("it is not valid yet");
        }
        if claims.sub.is_empty() || claims.sub.len() > MAX_SUBJECT_BYTES {
            return Err("its subject is not possible");
        }
        let attributes = attributes(&claims.iss, &claims.sub, &claims.kubernetes);
        Ok(Login {
            principal: Principal::token(claims.sub.into(), attributes),
            credential: VerifiedCredential::Token(Arc::new(AcceptedToken {
                key: Arc::clone(key),
                issuer: claims.iss,
                audiences,
            })),
            expires_wall_ms: Some(until_ms),
        })
    }
}

/// Returns the attributes of a token's holder: the issuer, and for a Kubernetes service account the names of what it
/// belongs to.
fn attributes(
    issuer: &str,
    subject: &str,
    kubernetes: &Map<String, Value>,
) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::from([("issuer".to_owned(), issuer.to_owned())]);
    let mut put = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            attributes.insert(name.into(), value.into());
        }
    };
    put(
        "namespace",
        kubernetes.get("namespace").and_then(Value::as_str),
    );
    for kind in ["serviceaccount", "pod", "node"] {
        let of = |part| kubernetes.get(kind).and_then(|of| of.get(part)?.as_str());
        put(kind, of("name"));
        put(&format!("{kind}.uid"), of("uid"));
    }
    // The subject is authoritative, whatever the other claims say.
    let account = subject.strip_prefix("system:serviceaccount:");
    if let Some((namespace, account)) = account.and_then(|account| account.split_once(':')) {
        put("namespace", Some(namespace));
        put("serviceaccount", Some(account));
    }
    attributes
}
