//! The scenarios that every language plays: see `tests/scenarios/README.md`.
mod options;
mod player;
mod result_json;
mod step;

use player::Player;
use statestored::{RunningServer, config::Config};
use std::fs;
use std::path::{Path, PathBuf};
use step::File;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

async fn play(name: &str) {
    let text = fs::read(folder().join(name)).expect("the file is there");
    let file: File = serde_json::from_slice(&text).expect("it is as the README says");
    assert!(!file.scenarios.is_empty());
    for scenario in &file.scenarios {
        let server = RunningServer::start(Config::in_memory()).expect("the server starts");
        let mut player = Player::new(server.url());
        for (index, step) in scenario.steps.iter().enumerate() {
            if let Err(problem) = player.play(step).await {
                panic!(
                    "{name}, \"{}\", step {}, {step:?}: {problem}",
                    scenario.name,
                    index + 1
                );
            }
        }
        player.end().await;
    }
}

macro_rules! files {
    ($($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                play(concat!(stringify!($name), ".json")).await;
            }
        )*

        #[test]
        fn every_file_is_played() {
            let mut played = vec![$(concat!(stringify!($name), ".json")),*];
            let mut there: Vec<_> = fs::read_dir(folder())
                .expect("the folder is there")
                .map(|entry| entry.expect("it can be read").file_name().into_string().expect("UTF-8"))
                .filter(|name| name.ends_with(".json"))
                .collect();
            there.sort();
            played.sort_unstable();
            assert_eq!(there, played);
        }
    };
}

files! { expiry extensions fencing locking observing refusing updating values }
