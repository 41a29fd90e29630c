//! SCRAM-SHA-256 (RFC 5802, RFC 7677): a password is proven, not sent. The server's side, without channel binding.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, HMAC_SHA256};
use ring::{digest, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The name of the mechanism, which is the authentication method.
pub(super) const METHOD: &str = "SCRAM-SHA-256";

/// Number of iterations for keys that are made here: the minimum of RFC 7677.
const ITERATIONS: u32 = 4096;
/// Maximum number of iterations. More would keep a client busy for minutes.
const MAX_ITERATIONS: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// Keys that the server keeps of a password: enough to verify a proof, not to make one.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl ScramKeys {
    /// Returns whether a text is meant to be SCRAM keys.
    pub fn has_prefix(text: &str) -> bool {
        text.starts_with("SCRAM-SHA-256$")
    }

    /// Reads `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`, the last three in base64.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "expected SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY";
        let mut parts = text.split('$');
        let (Some(METHOD), Some(salted), Some(keys), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(FORM);
        };
        let (iterations, salt) = salted.split_once(':').ok_or(FORM)?;
        let (stored, server) = keys.split_once(':').ok_or(FORM)?;
        let iterations = iterations.parse().map_err(|_| FORM)?;
        if !(ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err("the iterations of SCRAM are 4096 to 10000000");
        }
        let key = |text| -> Option<Key> { STANDARD.decode(text).ok()?.try_into().ok() };
        let salt = STANDARD.decode(salt).map_err(|_| FORM)?;
        if !(8..=64).contains(&salt.len()) {
            return Err("the salt of SCRAM has 8 to 64 bytes");
        }
        Ok(Self {
            iterations,
            salt,
            stored_key: key(stored).ok_or(FORM)?,
            server_key: key(server).ok_or(FORM)?,
        })
    }

    /// Derives the keys of a password of printable ASCII, with a new random salt; `None` if the system has no
    /// randomness.
    pub fn derive(password: &[u8]) -> Option<Self> {
        let mut salt = vec![0; SALT_BYTES];
        getrandom::fill(&mut salt).ok()?;
        Some(Self::derive_with(password, salt, ITERATIONS))
    }

    fn derive_with(password: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let mut salted = Zeroizing::new([0; KEY_BYTES]);
        let times = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            times,
            &salt,
            password,
            &mut *salted,
        );
        let client = Zeroizing::new(sign(&*salted, b"Client Key"));
        Self {
            iterations,
            salt,
            stored_key: hash(&*client),
            server_key: sign(&*salted, b"Server Key"),
        }
    }

    /// Returns keys for an unknown user that look like those of a known user. The same name always gets the same salt.
    pub(super) fn decoy(secret: &hmac::Key, name: &str, like: &Self) -> Self {
        let mut salt = hmac::sign(secret, name.as_bytes()).as_ref().to_vec();
        salt.truncate(like.salt.len());
        Self {
            iterations: like.iterations,
            salt,
            stored_key: [0; KEY_BYTES],
            server_key: [0; KEY_BYTES],
        }
    }
}

impl fmt::Display for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] = [&self.salt[..], &self.stored_key, &self.server_key]
            .map(|bytes| STANDARD.encode(bytes));
        let iterations = self.iterations;
        write!(f, "{METHOD}${iterations}:{salt}${stored}:{server}")
    }
}

impl fmt::Debug for ScramKeys {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeys")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

fn sign(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), message);
    tag.as_ref().try_into().unwrap_or_default()
}

fn hash(bytes: &[u8]) -> Key {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().unwrap_or_default()
}

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst<'a> {
    /// Name of the user whose password is to be proven.
    pub(super) name: String,
    /// The header about channel binding.
    gs2_header: &'a str,
    bare: &'a str,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    /// Parses `n,,n=NAME,r=NONCE`, or the same with `y,,`. Rejects a client that requires channel binding, or acts for another user.
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let message = std::str::from_utf8(message).ok()?;
        let bare = message
            .strip_prefix("n,,")
            .or_else(|| message.strip_prefix("y,,"))?;
        let mut parts = bare.split(',');
        let name = parts.next()?.strip_prefix("n=")?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        let is_printable = nonce.bytes().all(|byte| matches!(byte, 0x21..=0x7E));
        (!nonce.is_empty() && is_printable).then_some(Self {
            name: unescape_name(name)?,
            gs2_header: &message[..3],
            bare,
            nonce,
        })
    }
}

/// Decodes a name, in which `=2C` is a comma and `=3D` an equals sign.
fn unescape_name(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        text.push(match code {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        text.push_str(rest);
    }
    (!text.is_empty()).then_some(text)
}

/// An exchange that waits for the client's proof of its password. A single answer ends it.
pub struct ScramExchange {
    keys: ScramKeys,
    /// Whether the name is that of a user with keys.
    is_known_user: bool,
    name: String,
    /// The header about channel binding in base64.
    channel_binding: String,
    nonce: String,
    /// The client's first message without the header, and the server's.
    auth_message_prefix: String,
}

impl ScramExchange {
    /// Begins an exchange, and returns the challenge for the client; `None` if the system has no randomness.
    pub(super) fn begin(
        first: &ClientFirst<'_>,
        keys: ScramKeys,
        is_known: bool,
    ) -> Option<(String, Self)> {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).ok()?;
        Some(Self::with_nonce(
            first,
            keys,
            is_known,
            &STANDARD.encode(random),
        ))
    }

    fn with_nonce(
        first: &ClientFirst<'_>,
        keys: ScramKeys,
        is_known: bool,
        server_nonce: &str,
    ) -> (String, Self) {
        let nonce = format!("{}{server_nonce}", first.nonce);
        let salt = STANDARD.encode(&keys.salt);
        let message = format!("r={nonce},s={salt},i={}", keys.iterations);
        let exchange = Self {
            auth_message_prefix: format!("{},{message}", first.bare),
            keys,
            is_known_user: is_known,
            name: first.name.clone(),
            channel_binding: STANDARD.encode(first.gs2_header),
            nonce,
        };
        (message, exchange)
    }

    /// Returns the name of the user whose password is to be proven.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the client has to prove its password against these keys.
    pub(super) fn uses_keys(&self, keys: Option<&ScramKeys>) -> bool {
        keys == Some(&self.keys)
    }

    /// Verifies the client's proof. Returns the server's own proof for the client, or `None` if the client's proof is
    /// wrong.
    pub(super) fn finish(&self, last: &[u8]) -> Option<String> {
        let last = std::str::from_utf8(last).ok()?;
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let mut parts = without_proof.split(',');
        let binding = parts.next()?.strip_prefix("c=")?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        if binding != self.channel_binding || nonce != self.nonce {
            return None;
        }
        let proof: Key = STANDARD.decode(proof).ok()?.try_into().ok()?;
        let message = format!("{},{without_proof}", self.auth_message_prefix);
        let mut client = Zeroizing::new(sign(&self.keys.stored_key, message.as_bytes()));
        for (key, proof) in client.iter_mut().zip(proof) {
            *key ^= proof;
        }
        let is_right = bool::from(hash(&*client).ct_eq(&self.keys.stored_key));
        (is_right && self.is_known_user).then(|| {
            let signature = sign(&self.keys.server_key, message.as_bytes());
            format!("v={}", STANDARD.encode(signature))
        })
    }
}

impl fmt::Debug for ScramExchange {
    /// Omits keys and nonces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramExchange")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    fn example() -> (String, ScramExchange) {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let keys = ScramKeys::derive_with(b"pencil", salt, 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        ScramExchange::with_nonce(&first, keys, true, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    }

    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    #[test]
    fn the_example_of_rfc_7677_succeeds() {
        let (challenge, exchange) = example();
        assert_eq!(
            challenge,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        assert_eq!(
            exchange.finish(FINAL.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn another_nonce_proof_or_binding_is_refused() {
        let (_, exchange) = example();
        for (from, to) in [
            ("r=rOpr", "r=sOpr"),
            ("hNlF$k0", "hNlF$k1"),
            ("c=biws", "c=eSws"),
            ("c=biws", "c=cD10bHMtdW5pcXVlLCw="),
            ("p=dHzb", "p=eHzb"),
            ("ndVQ=", "ndVQ"),
            (",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", ""),
            ("c=biws,", ""),
        ] {
            let last = FINAL.replace(from, to);
            assert_ne!(last, FINAL);
            assert_eq!(exchange.finish(last.as_bytes()), None, "{last}");
        }
        assert_eq!(exchange.finish(b""), None);
        assert_eq!(exchange.finish(&[0xFF; 40]), None);
        let (_, unknown) = example();
        let unknown = ScramExchange {
            is_known_user: false,
            ..unknown
        };
        assert_eq!(unknown.finish(FINAL.as_bytes()), None);
    }

    #[test]
    fn only_valid_client_first_messages_are_accepted() {
        let first = ClientFirst::parse(b"y,,n=a=2Cb=3Dc,r=x,ext=1").unwrap();
        assert_eq!((first.name.as_str(), first.gs2_header), ("a,b=c", "y,,"));
        for refused in [
            &b"p=tls-unique,,n=user,r=x"[..],
            b"p=tls-exporter,,n=user,r=x",
            b"n,a=other,n=user,r=x",
            b"n,,m=must,n=user,r=x",
            b"n,,n=,r=x",
            b"n,,n=us=er,r=x",
            b"n,,n=us=2",
            b"n,,n=user",
            b"n,,n=user,r=",
            b"n,,n=user,r=a b",
            b"n=user,r=x",
            b"",
            b"\xFF",
        ] {
            assert_eq!(ClientFirst::parse(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn keys_round_trip_and_are_omitted_from_debug_output() {
        let keys = ScramKeys::derive(b"secret").unwrap();
        assert_ne!(keys, ScramKeys::derive(b"secret").unwrap());
        let text = keys.to_string();
        assert_eq!(ScramKeys::parse(&text).unwrap(), keys);
        let shown = format!("{keys:?} {:?}", example().1);
        assert!(!shown.contains('/') && !shown.contains("rOpr"), "{shown}");
        let [_, _, secrets] = text.split('$').collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        for (from, to) in [
            ("$4096:", "$4095:"),
            ("$4096:", "$10000001:"),
            ("$4096:", "$x:"),
            ("$4096:", "$4096"),
            (secrets, "AAAA:AAAA"),
            (secrets, ""),
            ("SCRAM-SHA-256", "SCRAM-SHA-1"),
        ] {
            assert!(
                ScramKeys::parse(&text.replace(from, to)).is_err(),
                "{from} {to}"
            );
        }
    }
}
