//! The files of this crate use each other in one direction, which is that of their declarations in `lib.rs`.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs::read_to_string;
use std::path::Path;

#[test]
fn modules_use_only_lower_layers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = read_to_string(source.join("lib.rs")).unwrap();
    let mut layers = HashMap::new();
    for (layer, block) in root.split("\n\n").enumerate() {
        for line in block.lines() {
            let declared = line.strip_prefix("pub ").unwrap_or(line);
            if let Some(name) = declared.strip_prefix("mod ") {
                layers.insert(name.trim_end_matches(';').to_owned(), layer);
            }
        }
    }
    let mut uses = 0;
    for (name, layer) in &layers {
        let text = read_to_string(source.join(name).with_extension("rs")).unwrap();
        for path in text.split("crate::").skip(1) {
            let end = path.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            // Names that begin with a capital letter are exported by `lib.rs`, and are used in documentation.
            let Some(below) = layers.get(&path[..end.unwrap()]) else {
                continue;
            };
            uses += 1;
            assert!(
                below > layer,
                "{name} uses crate::{}",
                &path[..end.unwrap()]
            );
        }
    }
    assert!(layers.len() > 20 && uses > 50, "the files were read");
}
