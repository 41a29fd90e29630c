//! The package of this crate, as it is published.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::path::Path;
use std::process::Command;

#[test]
fn the_package_declares_every_crate_that_it_uses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new(env!("CARGO"))
        .args([
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--manifest-path",
        ])
        .arg(root.join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.lines().any(|file| file == "src/lib.rs"), "{listed}");
    let is_source = |file: &&str| Path::new(file).extension() == Some("rs".as_ref());
    for file in listed.lines().filter(is_source) {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        // The server depends on the client in its tests, so that the client cannot depend on the server.
        let mut code = text.lines().filter(|line| !line.starts_with("//"));
        assert!(!code.any(|line| line.contains("statestored::")), "{file}");
    }
}
