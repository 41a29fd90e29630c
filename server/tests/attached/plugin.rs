//! A Mosquitto with the plugin that asserts the sender of a request, built as the documentation says.
use harness::Mosquitto;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

const DOCUMENTATION: &str = include_str!("../../../docs/attached.md");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const WARNINGS: &str = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror";

/// The key of plugin and server.
pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";
/// Users of the broker, all with the same password.
pub(crate) const USERS: [&str; 2] = ["ann", "bob"];
pub(crate) const PASSWORD: &str = "secret";

/// The plugin as a file.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = LIBRARY.get_or_init(|| {
        let command = DOCUMENTATION
            .lines()
            .find(|line| line.starts_with("cc ") && line.contains("statestore_identity.c"));
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("statestore_identity.so");
        let command = command.unwrap().replace(
            "-o statestore_identity.so",
            &format!("-o {}", library.display()),
        );
        let built = Command::new("sh")
            .args(["-c", &format!("{command} {WARNINGS}")])
            .current_dir(REPOSITORY)
            .status();
        assert!(
            built.unwrap().success(),
            "the plugin needs libssl-dev, libmosquitto-dev and mosquitto-dev: scripts/test packages"
        );
        (folder, library)
    });
    library
}

/// A broker with the plugin, and the files of both.
pub(crate) struct BrokerWithPlugin {
    pub(crate) broker: Mosquitto,
    pub(crate) folder: TempDir,
}

impl BrokerWithPlugin {
    /// Starts one that knows [`USERS`], and lets others in as well.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (key, users) = (folder.path().join("key"), folder.path().join("users"));
        std::fs::write(&key, format!("{KEY}\n")).unwrap();
        std::fs::write(&users, "").unwrap();
        for user in USERS {
            let made = Command::new("mosquitto_passwd")
                .args(["-b", users.to_str().unwrap(), user, PASSWORD])
                .status();
            assert!(made.unwrap().success());
        }
        // Files that only the user of the test can read are read by Mosquitto as that user, even if that is root.
        let broker = Mosquitto::start_with(&format!(
            "user root\nallow_anonymous true\npassword_file {}\nplugin {}\nplugin_opt_key_file {}\n",
            users.display(),
            library().display(),
            key.display(),
        ));
        Self { broker, folder }
    }

    /// The options of a server that relies on it.
    pub(crate) fn options(&self) -> Vec<String> {
        let key = self.folder.path().join("key");
        [
            "--attach-identity",
            "statestore-identity",
            "--attach-identity-key",
            key.to_str().unwrap(),
        ]
        .map(str::to_owned)
        .into()
    }
}

/// Returns the error of Mosquitto, which does not start with these options of the plugin.
pub(crate) fn refused(options: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mosquitto.conf");
    let socket = folder.path().join("socket");
    let lines = format!(
        "user root\nlog_dest stderr\nlistener 0 {}\nplugin {}\n{options}\n",
        socket.display(),
        library().display()
    );
    std::fs::write(&config, lines).unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "PATH=$PATH:/usr/sbin:/usr/local/sbin exec mosquitto -c \"$0\"",
        ])
        .arg(&config)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}
