//! The generated manual pages.
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]
use std::path::{Path, PathBuf};
use std::process::Command;

fn page(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let program = Path::new(env!("CARGO_BIN_EXE_statestore-manual"));
    assert!(
        Command::new(program)
            .arg(&folder)
            .status()
            .unwrap()
            .success()
    );
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn indented_paragraphs_are_verbatim() {
    let page = page("statestore-dapr.8");
    assert!(
        page.contains(
            ".nf\napiVersion: dapr.io/v1alpha1\nkind: Component\nmetadata:\n  name: statestore\n"
        ),
        "{page}"
    );
}

#[test]
fn text_after_the_help_is_part_of_the_description() {
    let page = page("statestored.8");
    let description = page.find(".SH DESCRIPTION").unwrap();
    let text = page.find("You can set each option").unwrap();
    let options = page.find(".SH OPTIONS").unwrap();
    assert!(description < text && text < options, "{page}");
}

#[test]
fn the_title_has_source_and_manual() {
    let page = page("statestore.1");
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        page.contains(&format!(
            ".TH STATESTORE 1 \" \" \"libstatestore {version}\" libstatestore\n"
        )),
        "{page}"
    );
}
