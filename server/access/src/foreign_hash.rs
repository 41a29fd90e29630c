//! Forms of password hashes that other programs write and the server does not check.

/// The prefix of a foreign hash, and the refusal of its line.
const FOREIGN_PREFIXES: [(&str, &str); 17] = [
    ("$P$", PHPASS),
    ("$H$", PHPASS),
    ("$S$", PHPASS),
    (
        "$6$",
        "this is a hash of SHA-512 (crypt, or Mosquitto before 2.0), which is not supported: set the password with `statestored passwd`",
    ),
    (
        "$5$",
        "this is a hash of SHA-256 crypt, which is not supported: set the password with `statestored passwd`",
    ),
    ("$2a$", BCRYPT),
    ("$2b$", BCRYPT),
    ("$2x$", BCRYPT),
    ("$2y$", BCRYPT),
    (
        "$y$",
        "this is a hash of yescrypt, which is not supported: set the password with `statestored passwd`",
    ),
    (
        "$gy$",
        "this is a hash of gost-yescrypt, which is not supported: set the password with `statestored passwd`",
    ),
    (
        "$1$",
        "this is a hash of MD5 crypt, which is not supported: set the password with `statestored passwd`",
    ),
    (
        "$apr1$",
        "this is a hash of Apache's MD5 crypt, which is not supported: set the password with `statestored passwd`",
    ),
    (
        "$scrypt$",
        "this is a hash of scrypt, which is not supported: set the password with `statestored passwd`",
    ),
    (
        "$pbkdf2",
        "this is a hash of PBKDF2 in a form that is not supported: set the password with `statestored passwd`",
    ),
    (
        "PBKDF2$",
        "this is a hash of PBKDF2 in a form that is not supported: set the password with `statestored passwd`",
    ),
    (
        "SCRAM-",
        "of the keys of SCRAM, only those of SCRAM-SHA-256 are supported: set the password with `statestored passwd --scram`",
    ),
];

/// Minimum length of a hash behind the name of a scheme: that of crypt(3) with DES. With less behind it, a name in
/// lower case may begin a password.
const MIN_HASH_LENGTH: usize = 13;

/// Hexadecimal digits of `MySQL`'s `PASSWORD()`.
const MYSQL_DIGITS: usize = 40;

const MYSQL: &str =
    "this is a hash of MySQL, which is not supported: set the password with `statestored passwd`";

const PHPASS: &str =
    "this is a hash of phpass, which is not supported: set the password with `statestored passwd`";

const BCRYPT: &str =
    "this is a hash of bcrypt, which is not supported: set the password with `statestored passwd`";

const SCHEME: &str = "this is a hash of an LDAP scheme such as {SSHA}, which is not supported: set the password with `statestored passwd`";

const UNKNOWN: &str = "this has the form of a hash ($NAME$...) that is not supported: set the password with `statestored passwd`";

/// Returns why a line with this text as its password is rejected, if the text is a hash of another program. If the hash
/// counted as a plain password, it would let in every reader of the file.
pub(super) fn refusal(text: &str) -> Option<&'static str> {
    let form = FOREIGN_PREFIXES
        .iter()
        .find(|(begin, _)| text.starts_with(begin));
    if let Some((_, refusal)) = form {
        return Some(refusal);
    }
    let is_scheme = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    if is_scheme.is_some_and(|(scheme, hash)| {
        let is_upper = is_name(scheme, u8::is_ascii_uppercase) && !hash.is_empty();
        is_upper || is_name(scheme, u8::is_ascii_alphabetic) && hash.len() >= MIN_HASH_LENGTH
    }) {
        return Some(SCHEME);
    }
    let is_mysql = text.strip_prefix('*').is_some_and(|digits| {
        digits.len() == MYSQL_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    if is_mysql {
        return Some(MYSQL);
    }
    let is_crypt = text.strip_prefix('$').and_then(|rest| rest.split_once('$'));
    is_crypt
        .is_some_and(|(name, hash)| is_name(name, u8::is_ascii_lowercase) && hash.contains('$'))
        .then_some(UNKNOWN)
}

/// Returns whether a text can be the name of a scheme.
fn is_name(text: &str, is_letter: fn(&u8) -> bool) -> bool {
    let is_part = |byte: u8| is_letter(&byte) || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_other_programs_are_recognized() {
        for (text, named) in [
            ("$6$1234$5678", "SHA-512"),
            ("$5$1234$5678", "SHA-256"),
            (
                "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
                "bcrypt",
            ),
            (
                "$2y$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
                "bcrypt",
            ),
            (
                "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC",
                "yescrypt",
            ),
            ("{SSHA}DkMTwBl+a/3DQTxCYEApdUtNXGgdUac3", "{SSHA}"),
            ("{ssha}DkMTwBl+a/3DQTxCYEApdUtNXGgdUac3", "{SSHA}"),
            ("{crypt}rqXexS6ZhobKA", "{SSHA}"),
            ("$P$BDJMoAKLzyLPtatN/WQrbPgHVMmNFn.", "phpass"),
            ("$H$9PE4jEWw7e3VUPlaeQDTXp8sjKIuY5/", "phpass"),
            (
                "$S$DeAjfbQ5SXAjcGqx0qzAyyMrUhyAJUlgOPSNiZDmuB5lBLFjI1cC",
                "phpass",
            ),
            ("*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19", "MySQL"),
            ("{SSHA512}DkMTwBl+a/3DQTxCYEApdUtNXGgdUac3", "{SSHA}"),
            ("{PBKDF2-SHA512}10000$x$y", "{SSHA}"),
            ("SCRAM-SHA-512$4096:x$y:z", "SCRAM-SHA-256"),
            ("SCRAM-SHA-1$4096:x$y:z", "SCRAM-SHA-256"),
            ("$apr1$x$y", "Apache"),
            ("$1$x$y", "MD5"),
            ("$scrypt$ln=17,r=8,p=1$x$y", "scrypt"),
            ("$pbkdf2-sha256$1000$x$y", "PBKDF2"),
            ("$balloon$v=1$m=1024$x$y", "form of a hash"),
        ] {
            let refusal = refusal(text).unwrap_or_else(|| panic!("{text}"));
            assert!(refusal.contains(named), "{text}: {refusal}");
        }
    }

    #[test]
    fn plain_passwords_are_not_mistaken_for_hashes() {
        for text in [
            "secret",
            "$ecret",
            "$a$b",
            "pa$$word",
            "{a}b",
            "{user}secret",
            "{}",
            "{A}",
            "*secret",
            "$$",
            "$A$b$c",
            "scram-",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }
}
