//! Files that cannot be used: which one, what is wrong, what to do. All of them are found before anything is sent.
use crate::authority::Authority;
use crate::support::within;
use crate::{Files, key};
use statestore::{Client, ErrorKind, Settings};

/// Settings with a port on which no server listens. These tests fail before they connect.
fn unreachable_settings() -> Settings {
    Settings::new("127.0.0.1", 1).tls(true)
}

#[track_caller]
fn assert_says(text: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(text.contains(phrase), "`{text}` does not say `{phrase}`");
    }
}

async fn refusal(settings: Settings) -> String {
    let error = within(Client::connect(settings)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSettings, "{error}");
    assert!(!error.is_retryable());
    error.to_string()
}

#[tokio::test]
async fn a_ca_file_must_hold_certificates() {
    let files = Files::new();
    let pem = Authority::new("authority").pem();
    let cut_off = &pem[..pem.len() / 2];
    let garbled = pem.replace("MII", "***");
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (name, content, problem) in [
        ("empty", "", "is empty"),
        ("prose", "hello\n", "contains no certificate"),
        (
            "key",
            &std::fs::read_to_string(key("ec.pkcs8.pem")).unwrap(),
            "contains no certificate",
        ),
        ("der", "0\u{2}abc", "is DER, not PEM"),
        ("cut-off", cut_off, "is cut off"),
        ("garbled", &garbled, "is not well-formed PEM"),
        (
            "nonsense",
            nonsense,
            "holds a certificate that cannot be used",
        ),
    ] {
        let path = files.write(name, content);
        let text = refusal(unreachable_settings().ca_file(&path)).await;
        assert_says(&text, &["CA file", path.to_str().unwrap(), problem]);
    }
    let text = refusal(unreachable_settings().ca_file(files.path("missing"))).await;
    assert_says(&text, &["CA file", "missing", "does not exist"]);
    let text = refusal(unreachable_settings().ca_file(files.path(""))).await;
    assert_says(&text, &["CA file", "is not a file"]);
}

#[tokio::test]
async fn endless_files_are_not_read() {
    let text = refusal(unreachable_settings().ca_file("/dev/zero")).await;
    assert_says(&text, &["CA file", "/dev/zero", "is not a file"]);
    let files = Files::new();
    let huge = files.path("huge");
    std::fs::File::create(&huge)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let text = refusal(unreachable_settings().ca_file(huge)).await;
    assert_says(&text, &["CA file", "is longer than"]);
}

#[tokio::test]
async fn a_key_must_exist_be_readable_and_match_its_certificate() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let own = authority.issue(["client"]);
    let settings = unreachable_settings()
        .ca_file(files.write("ca.crt", authority.pem()))
        .cert_file(files.write("client.crt", &own.certificate));

    let other = files.write("other.key", authority.issue(["client"]).key);
    let text = refusal(settings.clone().key_file(&other)).await;
    assert_says(
        &text,
        &["key file", "other.key", "does not match", "client.crt"],
    );

    let text = refusal(settings.clone().key_file(files.path("missing"))).await;
    assert_says(&text, &["key file", "missing", "does not exist"]);

    let text = refusal(settings.clone().key_file(files.path("client.crt"))).await;
    assert_says(
        &text,
        &["key file", "client.crt", "contains no private key"],
    );

    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let nonsense = files.write("nonsense.key", nonsense);
    let text = refusal(settings.clone().key_file(nonsense)).await;
    assert_says(
        &text,
        &[
            "key file",
            "nonsense.key",
            "holds a key that cannot be used",
        ],
    );

    let text = refusal(
        unreachable_settings()
            .cert_file(files.path("client.crt"))
            .ca_file(files.path("ca.crt")),
    )
    .await;
    assert_says(&text, &["`cert_file` is set and `key_file` is not"]);
}

#[tokio::test]
async fn an_encrypted_key_needs_its_password() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let own = authority.issue(["client"]);
    let settings = unreachable_settings()
        .ca_file(files.write("ca.crt", authority.pem()))
        .cert_file(files.write("client.crt", &own.certificate));

    let encrypted = settings.clone().key_file(key("ec.pbkdf2.pem"));
    let text = refusal(encrypted.clone()).await;
    assert_says(
        &text,
        &["ec.pbkdf2.pem", "is encrypted", "no key password file"],
    );

    let wrong = files.write("password", "close sesame");
    let text = refusal(encrypted.clone().key_password_file(wrong)).await;
    assert_says(&text, &["key password file", "password is wrong"]);
    assert!(!text.contains("close sesame"), "{text}");

    let text = refusal(encrypted.key_password_file(files.path("missing"))).await;
    assert_says(&text, &["key password file", "missing", "does not exist"]);

    let right = files.write("right", "open sesame");
    for name in ["ec.openssl.pem", "ec.des3.pem"] {
        let settings = settings
            .clone()
            .key_file(key(name))
            .key_password_file(&right);
        let text = refusal(settings).await;
        assert_says(
            &text,
            &[name, "is encrypted", "openssl pkcs8 -topk8 -v2 aes-256-cbc"],
        );
    }
}

#[tokio::test]
async fn password_and_token_files_must_not_be_empty() {
    let files = Files::new();
    let plain = Settings::new("127.0.0.1", 1).allow_plaintext_credentials(true);
    for (content, problem) in [("", "is empty"), ("\r\n", "holds an empty line only")] {
        let path = files.write("secret", content);
        let text = refusal(plain.clone().user_name("user").password_file(&path)).await;
        assert_says(&text, &["password file", problem]);
        let text = refusal(plain.clone().sat_file(&path)).await;
        assert_says(&text, &["service account token file", problem]);
    }
    let long = files.write("secret", vec![b'x'; 65_536]);
    let text = refusal(plain.clone().sat_file(&long)).await;
    assert_says(
        &text,
        &["service account token file", "is longer than 65535 bytes"],
    );
}
