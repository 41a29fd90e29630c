//! `include/statestore.h` is what the sources say. `scripts/header` makes it anew.
#![allow(clippy::unwrap_used)]

use std::path::Path;

fn header() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    config.header = Some(std::fs::read_to_string(here.join("preamble.h")).unwrap());
    config.after_includes = Some(format!(
        "\n// Major version of this header.\n#define SST_VERSION_MAJOR {}\n\
         \n// Minor version of this header.\n#define SST_VERSION_MINOR {}\n\
         \n// Patch version of this header.\n#define SST_VERSION_PATCH {}\n\
         \n// Version of this header as text.\n#define SST_VERSION \"{}\"\n\
         \n// Number that grows with the version, for `#if`. See sst_version_number().\n\
         #define SST_VERSION_NUMBER (SST_VERSION_MAJOR * 1000000 + SST_VERSION_MINOR * 1000 + SST_VERSION_PATCH)\n\
         \n// A time without an end.\n#define SST_FOREVER UINT64_MAX\n\
         \n// A remaining time that is not known. See sst_entry_expires_in_ms().\n#define SST_UNKNOWN_TIME (UINT64_MAX - 1)\n\
         \n// As many as there are.\n#define SST_ALL SIZE_MAX\n\
         \n// A text literal as two arguments, its bytes and their number: `sst_get(client, SST_TEXT(\"key\"), NULL, &entry, NULL)`.\n\
         #define SST_TEXT(text) (\"\" text), (sizeof(\"\" text) - 1)\n\
         \n// A text literal as an sst_slice in an initializer: `sst_slice keys[] = {{SST_SLICE(\"a\"), SST_SLICE(\"b\")}};`.\n\
         #define SST_SLICE(text) {{SST_TEXT(text)}}\n\
         \n// An sst_slice as two arguments. The expression is evaluated twice.\n\
         #define SST_BYTES(slice) (slice).data, (slice).len\n",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
        env!("CARGO_PKG_VERSION"),
    ));
    let bindings = cbindgen::Builder::new()
        .with_crate(here)
        .with_config(config)
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_committed_header_matches_the_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include/statestore.h");
    let made = header();
    if std::env::var_os("STATESTORE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (old, new))) = committed
        .lines()
        .zip(made.lines())
        .enumerate()
        .find(|(_, (old, new))| old != new)
    {
        panic!(
            "run scripts/header: line {} is\n{old}\nand should be\n{new}",
            line + 1
        );
    }
    assert_eq!(
        committed.len(),
        made.len(),
        "run scripts/header: one is longer"
    );
}

/// The functions of the header, with their comments.
fn functions(header: &str) -> Vec<(&str, &str)> {
    header
        .split("\n\n")
        .filter_map(|block| {
            let (comment, declaration) = block.rsplit_once("// ").and_then(|(before, rest)| {
                let (last, declaration) = rest.split_once('\n')?;
                Some((&block[..before.len() + 3 + last.len()], declaration))
            })?;
            let name = declaration.split_once('(')?.0.rsplit([' ', '*']).next()?;
            name.starts_with("sst_").then_some((name, comment))
        })
        .collect()
}

#[test]
fn every_function_is_documented() {
    let header = header();
    let functions = functions(&header);
    assert!(functions.len() > 140);
    for (name, comment) in functions {
        if let Some(base) = name.strip_suffix("_async") {
            // What else there is to know of both is said at the other one.
            assert!(
                comment.contains(&format!("Begins {base}()")),
                "{name} does not say what it begins"
            );
        }
        // What is said at the top of the header is not said again.
        for usual in [
            "Thread: any.",
            "Blocks: no.",
            "NULL: `error`",
            "is NULL then",
            "` is borrowed",
        ] {
            assert!(
                !comment.contains(usual),
                "{name} says what holds for all: {usual}"
            );
        }
    }
}

#[test]
fn every_export_catches_panics() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in std::fs::read_dir(sources).unwrap() {
        let path = file.unwrap().path();
        // What is in folders is not in the header.
        if path.is_dir() {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for export in source.split("#[unsafe(no_mangle)]").skip(1) {
            let body = export.split("\n}").next().unwrap();
            let name = body.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            assert!(
                body.contains("boundary::")
                    || body.contains("infallible::")
                    || name.starts_with("sst_has_")
                    || ["sst_version", "sst_version_number"].contains(&name),
                "{name} lets panics through"
            );
        }
    }
}
