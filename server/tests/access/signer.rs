//! An issuer of tokens: its keys, and the file in which the server finds them.
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use statestored::access_files::KeyFile;
use statestored_access::TokenVerifier;
use std::path::{Path, PathBuf};

pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
pub(crate) const AUDIENCE: &str = "aio-internal";
pub(crate) const SUBJECT: &str = "system:serviceaccount:factory:pump";

/// A key with its name.
pub(crate) struct Signer {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Signer {
    pub(crate) fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
        Self { id, pair }
    }

    /// The public key as it stands in a set.
    pub(crate) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y})
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": "ES256", "kid": self.id}), claims)
    }

    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] =
            [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A folder with the file of keys.
pub(crate) struct KeyFileFixture {
    folder: tempfile::TempDir,
}

impl KeyFileFixture {
    pub(crate) fn with_signers(signers: &[&Signer]) -> Self {
        let keys = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        keys.replace(signers);
        keys
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("jwks.json")
    }

    /// Replaces the file as Kubernetes does: by a rename.
    pub(crate) fn replace(&self, signers: &[&Signer]) {
        let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
        let new = self.folder.path().join("new");
        std::fs::write(&new, json!({ "keys": keys }).to_string()).unwrap();
        std::fs::rename(&new, self.path()).unwrap();
    }

    pub(crate) fn tokens(&self) -> TokenVerifier {
        tokens(&self.path())
    }
}

/// Tokens of the usual issuer for the usual audience, with a leeway of ten seconds.
pub(crate) fn tokens(keys: &Path) -> TokenVerifier {
    let keys = KeyFile::read(keys).unwrap();
    TokenVerifier::new(keys, ISSUER, [AUDIENCE.to_owned()], 10)
}

/// Returns the claims of a pod's token that is valid from a minute ago until `seconds` from now.
pub(crate) fn claims(wall_ms: u64, seconds: u64) -> Value {
    let now_s = wall_ms / 1000;
    json!({
        "iss": ISSUER,
        "sub": SUBJECT,
        "aud": [AUDIENCE],
        "nbf": now_s - 60,
        "iat": now_s - 60,
        "exp": now_s + seconds,
        "kubernetes.io": {
            "namespace": "factory",
            "serviceaccount": {"name": "pump", "uid": "s1"},
            "pod": {"name": "pump-7", "uid": "p7"},
        },
    })
}
