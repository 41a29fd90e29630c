//! Public keys that sign tokens: a JSON Web Key Set (RFC 7517).
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// Minimum size of an RSA modulus. RFC 8017 allows shorter ones, which can be broken.
const MIN_RSA_BYTES: usize = 2048 / 8;

/// An error in a set of keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// The text is not a JSON Web Key Set.
    #[error("it is not a JSON Web Key Set: {0}")]
    Json(#[from] serde_json::Error),
    /// A key is invalid.
    #[error("key {number}: {problem}")]
    Key {
        /// Number of the key, counted from 1.
        number: usize,
        /// The problem.
        problem: &'static str,
    },
    /// No key in the set can sign tokens.
    #[error("it has no key that can sign tokens (RSA, EC or Ed25519)")]
    Empty,
}

/// A public key, which signs with some algorithms and no others. A key is never used as a shared secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    id: Option<String>,
    /// The only algorithm, if the set names one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, PartialEq, Eq)]
enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as written in the text.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

impl Jwk {
    /// Returns the key; `None` for a kind of key that signs no tokens here.
    fn into_key(self) -> Result<Option<Key>, &'static str> {
        let bytes = |text: &Option<String>| {
            let text = text.as_ref().ok_or("a part of it is missing")?;
            let bytes = URL_SAFE_NO_PAD.decode(text);
            bytes.map_err(|_| "a part of it is not base64url")
        };
        if self.used_for.as_ref().is_some_and(|used| used != "sig") {
            return Ok(None);
        }
        let point = |bytes_each: usize| {
            let (x, y) = (bytes(&self.x)?, bytes(&self.y)?);
            if x.len() != bytes_each || y.len() != bytes_each {
                return Err("its point has another length than its curve");
            }
            Ok([&[4][..], &x, &y].concat())
        };
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let n = bytes(&self.n)?;
                // Leading zeros are not part of the number, and ring rejects them.
                let n: Vec<u8> = n.into_iter().skip_while(|byte| *byte == 0).collect();
                if n.len() < MIN_RSA_BYTES {
                    return Err("an RSA key of less than 2048 bits is not safe");
                }
                let e = bytes(&self.e)?;
                KeyMaterial::Rsa { n, e }
            }
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(&self.x)?),
            _ => return Ok(None),
        };
        Ok(Some(Key {
            id: self.kid,
            algorithm: self.alg,
            material,
        }))
    }
}

impl Key {
    /// Returns whether this key has signed the message with this algorithm.
    pub(super) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        if self
            .algorithm
            .as_ref()
            .is_some_and(|only| only != algorithm)
        {
            return false;
        }
        let rsa = |parameters: &RsaParameters| match &self.material {
            KeyMaterial::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(parameters, message, signature)
                .is_ok(),
            _ => false,
        };
        match (algorithm, &self.material) {
            ("RS256", _) => rsa(&RSA_PKCS1_2048_8192_SHA256),
            ("RS384", _) => rsa(&RSA_PKCS1_2048_8192_SHA384),
            ("RS512", _) => rsa(&RSA_PKCS1_2048_8192_SHA512),
            ("PS256", _) => rsa(&RSA_PSS_2048_8192_SHA256),
            ("PS384", _) => rsa(&RSA_PSS_2048_8192_SHA384),
            ("PS512", _) => rsa(&RSA_PSS_2048_8192_SHA512),
            ("ES256", KeyMaterial::P256(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
                    .is_ok()
            }
            ("ES384", KeyMaterial::P384(point)) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature)
                    .is_ok()
            }
            ("EdDSA", KeyMaterial::Ed25519(key)) => UnparsedPublicKey::new(&ED25519, key)
                .verify(message, signature)
                .is_ok(),
            _ => false,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A set of keys.
#[derive(Debug, PartialEq, Eq)]
pub struct KeySet(Vec<Arc<Key>>);

impl KeySet {
    /// Parses a JSON Web Key Set. Ignores keys that sign no tokens here, such as keys for encryption.
    ///
    /// # Errors
    /// The text is not a JSON Web Key Set, a key is invalid, or no key can sign tokens.
    pub fn parse(text: &[u8]) -> Result<Self, JwksError> {
        let set: Jwks = serde_json::from_slice(text)?;
        let mut keys = Vec::new();
        for (index, jwk) in set.keys.into_iter().enumerate() {
            let key = jwk.into_key().map_err(|problem| JwksError::Key {
                number: index + 1,
                problem,
            })?;
            keys.extend(key.map(Arc::new));
        }
        if keys.is_empty() {
            return Err(JwksError::Empty);
        }
        Ok(Self(keys))
    }

    /// Returns the keys with this id; without an id, the only key.
    pub(super) fn by_id(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Key>> {
        let is_only = self.0.len() == 1;
        self.0.iter().filter(move |key| match id {
            Some(id) => key.id.as_deref() == Some(id),
            None => is_only,
        })
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.iter().any(|other| **other == *key)
    }
}

/// A source of the keys that sign tokens, such as a file. Its keys can change while the server runs.
pub trait KeySource: fmt::Debug + Send + Sync {
    /// Returns the keys as the source has read them last. Does not block.
    fn known_keys(&self) -> Arc<KeySet>;

    /// Returns the current keys at a time of the monotonic clock. Is called for each token, on a thread that may block.
    fn current_keys(&self, now_ms: u64) -> Arc<KeySet>;
}

/// Keys that do not change.
impl KeySource for Arc<KeySet> {
    fn known_keys(&self) -> Arc<KeySet> {
        Self::clone(self)
    }

    fn current_keys(&self, _now_ms: u64) -> Arc<KeySet> {
        Self::clone(self)
    }
}
