//! Hashes of passwords that other programs have written.
use crate::tools::fail;
use crate::users_file::{log_in, start};
use statestore_protocol::mqtt::ReasonCode;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_mosquitto_hash_accepts_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let made = Command::new("mosquitto_passwd")
        .args(["-c", "-b"])
        .arg(&file)
        .args(["ann", "secret"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, hash) = text.trim_end().split_once(':').unwrap();
    let daemon = start(&file);
    for (user, password) in [("ann", hash), ("ann", "wrong"), ("bob", "secret")] {
        let refused = log_in(&daemon, user, password).err();
        assert_eq!(
            refused,
            Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD),
            "{password}"
        );
    }
    log_in(&daemon, "ann", "secret").unwrap().assert_alive();
    log_in(&daemon, "ann", "secret").unwrap().assert_alive();
}

#[test]
fn hashes_of_other_programs_are_refused_with_their_format() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    for (hash, name) in [
        ("$6$mMXpwOAaEUkY$6vO4n1kX0jQ2rYy4==", "SHA-512"),
        (
            "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
            "bcrypt",
        ),
        (
            "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC",
            "yescrypt",
        ),
        ("{SSHA}DkMTwBl+a/3DQTxCYEApdUtNXGgdUac3", "{SSHA}"),
        ("SCRAM-SHA-512$4096:c2FsdA==$a:b", "SCRAM-SHA-256"),
    ] {
        std::fs::write(&file, format!("# users\nann:{hash}\n")).unwrap();
        let (_, text) = fail(&["--storage", "memory", "--users-file", path, "--check"]);
        assert!(text.contains("line 2: ") && text.contains(name), "{text}");
        std::fs::write(&file, format!("{hash}\n")).unwrap();
        let arguments = [
            "--storage",
            "memory",
            "--check",
            "--user",
            "ann",
            "--password-file",
            path,
        ];
        let (_, text) = fail(&arguments);
        assert!(text.contains(name), "{text}");
    }
}
