//! Options of any text, on the command line and in a file: a configuration or an error that says what is wrong, and the same at each
//! reading.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestored::config::ConfigLayers;
use std::ffi::OsString;
use std::fs;
use tempfile::TempDir;

/// Arguments, one on each line, then this, then the file.
const FILE: &str = "\n--- file\n";

fuzz_target!(|text: &str| {
    let (arguments, file) = text.split_once(FILE).unwrap_or(("", text));
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("statestored.toml");
    fs::write(&path, file).expect("a file");
    let mut line: Vec<OsString> = vec!["statestored".into(), "--config".into(), path.into()];
    line.extend(arguments.lines().map(Into::into));
    let layers = ConfigLayers::new(line);
    let read = || layers.read().map_err(|error| error.to_string());
    let (once, again) = (read(), read());
    assert_eq!(once.as_ref().err(), again.as_ref().err());
    let Ok(arguments) = once else {
        return;
    };
    // What it names is read now: nothing of this machine but what lies where the fuzzer runs.
    if !text.contains('/') && !text.contains("..") {
        let _ = arguments.into_config().map(|config| config.check());
    }
});
