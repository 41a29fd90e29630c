//! Accepted logins, and their principals.
use super::*;
use crate::{HashingMemory, VerificationOutcome};

fn credentials<'a>(user_name: Option<&'a str>, password: Option<&'a Bytes>) -> Credentials<'a> {
    Credentials {
        user_name,
        password,
        authentication: None,
        certificate: None,
    }
}

/// Logs in and returns the login or the reason code. Runs jobs on this thread.
fn log_in(
    authenticator: &Authenticator,
    credentials: Credentials<'_>,
) -> Result<Login, ReasonCode> {
    let now = ClockReading {
        wall_ms: 1_700_000_000_000,
        mono_ms: 0,
    };
    match authenticator.begin(credentials, now) {
        LoginStep::Accepted(login, _) => Ok(*login),
        LoginStep::Refused((reason, _)) => Err(reason),
        LoginStep::Verify(job) => match job.run(&mut HashingMemory::default()) {
            VerificationOutcome::Accepted(login) => Ok(*login),
            other => panic!("{other:?}"),
        },
        step @ LoginStep::Challenge(..) => panic!("{step:?}"),
    }
}

#[test]
fn only_the_right_password_of_a_known_user_is_accepted() {
    let mut users = Users::default();
    assert!(users.add("ann", b"secret") && !users.add("ann", b"other"));
    let authenticator = Authenticator::from(users);
    let secret = Bytes::from("secret");
    let login = log_in(&authenticator, credentials(Some("ann"), Some(&secret))).unwrap();
    assert_eq!(
        login,
        Login::new(Principal::user("ann".into()), VerifiedCredential::Password)
    );
    for (name, password) in [
        (Some("ann"), Some("secre")),
        (Some("ann"), Some("secret2")),
        (Some("ann"), Some("")),
        (Some("ann"), None),
        (Some("bob"), Some("secret")),
        (None, Some("secret")),
        (None, None),
    ] {
        let password = password.map(Bytes::from);
        assert_eq!(
            log_in(&authenticator, credentials(name, password.as_ref())),
            Err(ReasonCode::BAD_USER_NAME_OR_PASSWORD),
        );
    }
}

#[test]
fn a_client_id_with_a_user_name_is_reserved_for_that_user() {
    let mut users = Users::default();
    for user in ["ann", "ann-b", "x/y"] {
        users.add(user, b"secret");
    }
    let authenticator = Authenticator::from(users);
    for (client_id, owner) in [
        ("ann", Some("ann")),
        ("ann-1", Some("ann")),
        ("ann-bc", Some("ann")),
        ("ann-b", Some("ann-b")),
        ("ann-b.7-c", Some("ann-b")),
        ("ann/", Some("ann")),
        ("x/y:z", Some("x/y")),
        ("anna", None),
        ("x/z", None),
        ("-ann", None),
        ("", None),
        ("ö-ann", None),
    ] {
        for user in ["ann", "ann-b", "x/y"] {
            let principal = Principal::user(user.into());
            let is_allowed = authenticator.allows_client_id(&principal, client_id);
            assert_eq!(
                is_allowed,
                owner.is_none_or(|owner| owner == user),
                "{client_id} {user}"
            );
        }
    }
    assert!(Authenticator::anonymous().allows_client_id(&Principal::default(), "ann"));
}

#[test]
fn an_unsupported_authentication_method_is_refused() {
    let mut users = Users::default();
    users.add("ann", b"secret");
    let first = Bytes::from("n,,n=ann,r=nonce");
    for authenticator in [Authenticator::anonymous(), Authenticator::from(users)] {
        for method in ["K8S-SAT", "SCRAM-SHA-256", "SCRAM-SHA-1", ""] {
            let shown = Credentials {
                authentication: Some((method, &first)),
                ..credentials(None, None)
            };
            assert_eq!(
                log_in(&authenticator, shown),
                Err(ReasonCode::BAD_AUTHENTICATION_METHOD),
            );
        }
    }
}

#[test]
fn a_certificate_alone_is_accepted_if_configured() {
    let certificate = Arc::new(ClientCertificate {
        subject: "CN=pump,O=Plant".into(),
        common_name: Some("pump".into()),
        uri: vec!["spiffe://plant/pump".into()],
        ..ClientCertificate::default()
    });
    let password = Bytes::from("secret");
    let shown = Credentials {
        certificate: Some(&certificate),
        ..credentials(None, None)
    };
    for (name, expected) in [
        (CertificateName::None, Ok(None)),
        (CertificateName::CommonName, Ok(Some("pump"))),
        (CertificateName::Subject, Ok(Some("CN=pump,O=Plant"))),
        (CertificateName::Uri, Ok(Some("spiffe://plant/pump"))),
        (CertificateName::Dns, Err(ReasonCode::NOT_AUTHORIZED)),
        (CertificateName::Email, Err(ReasonCode::NOT_AUTHORIZED)),
    ] {
        let authenticator = Authenticator::anonymous().with_certificates(name);
        let login = log_in(&authenticator, shown);
        let principal = login.as_ref().map(|login| login.principal.name());
        assert_eq!(principal.map_err(|reason| *reason), expected, "{name:?}");
        if let Ok(login) = login {
            assert_eq!(login.credential, VerifiedCredential::Certificate);
            assert_eq!(login.principal.attribute("common_name"), Some("pump"));
        }
        // A certificate does not make up for a wrong user name, and a client without a certificate is refused.
        let named = Credentials {
            password: Some(&password),
            user_name: Some("pump"),
            ..shown
        };
        for refused in [named, credentials(None, None)] {
            let refused = log_in(&authenticator, refused);
            assert_eq!(refused, Err(ReasonCode::BAD_USER_NAME_OR_PASSWORD));
        }
    }
    // If certificates are not configured, a certificate accepts no client, but adds attributes to other logins.
    let mut users = Users::default();
    users.add("ann", b"secret");
    let authenticator = Authenticator::from(users);
    assert_eq!(
        log_in(&authenticator, shown),
        Err(ReasonCode::BAD_USER_NAME_OR_PASSWORD)
    );
    let ann = Credentials {
        user_name: Some("ann"),
        password: Some(&password),
        ..shown
    };
    for (authenticator, credentials) in [(authenticator, ann), (Authenticator::anonymous(), shown)]
    {
        let login = log_in(&authenticator, credentials).unwrap();
        assert_eq!(
            login.principal.attribute("subject"),
            Some("CN=pump,O=Plant")
        );
    }
}

#[test]
fn a_certificate_cannot_name_a_service_account() {
    let name = "system:serviceaccount:factory:pump";
    let certificate = Arc::new(ClientCertificate {
        subject: format!("CN={name}"),
        common_name: Some(name.into()),
        ..ClientCertificate::default()
    });
    let shown = Credentials {
        certificate: Some(&certificate),
        ..credentials(None, None)
    };
    let authenticator = Authenticator::anonymous().with_certificates(CertificateName::CommonName);
    assert_eq!(
        log_in(&authenticator, shown),
        Err(ReasonCode::NOT_AUTHORIZED)
    );
}

#[test]
fn debug_output_contains_no_credentials() {
    let password = Bytes::from("the password");
    let data = Bytes::from("the token");
    let shown = Credentials {
        authentication: Some(("K8S-SAT", &data)),
        ..credentials(Some("ann"), Some(&password))
    };
    let mut users = Users::default();
    users.add("ann", &password);
    let authenticator = Authenticator::from(users);
    let text = format!("{shown:?} {authenticator:?}");
    assert!(text.contains("ann") && text.contains("K8S-SAT"), "{text}");
    assert!(!text.contains("the "), "{text}");
    let hash = crate::PasswordHash::compute(&password).unwrap();
    let users = Users::parse(&format!("bob:{hash}\n")).unwrap();
    let authenticator = Authenticator::from(users);
    let job = authenticator.begin(
        credentials(Some("bob"), Some(&password)),
        ClockReading {
            wall_ms: 0,
            mono_ms: 0,
        },
    );
    let text = format!("{authenticator:?} {job:?}");
    let hash = hash.to_string();
    let secret = hash.rsplit('$').next().unwrap();
    assert!(!text.contains("the ") && !text.contains(secret), "{text}");
}
