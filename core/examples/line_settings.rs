//! The settings of a line: other programs change them, and the line follows all keys of their folder.
//!
//! ```sh
//! cargo run --example line_settings                     # follows the settings until Ctrl-C
//! cargo run --example line_settings -- NAME VALUE       # changes one
//! ```
//!
//! `STATESTORE_URL` is the address of the server.
use statestore::{Client, Error, MatchObservation, Settings};
use std::process::ExitCode;

const FOLDER: &str = "line-1/settings/";
const DEFAULTS: [(&str, u32); 2] = [("pressure", 5), ("speed", 60)];

/// The settings by name, in the order of [`DEFAULTS`].
type LineSettings = [(&'static str, u32); 2];

/// Applies the value of a setting; `None` if it is not set. A value that is no number changes nothing.
fn apply(settings: &mut LineSettings, key: &[u8], value: Option<&[u8]>) {
    let name = key.strip_prefix(FOLDER.as_bytes());
    for ((known, number), (_, default)) in settings.iter_mut().zip(DEFAULTS) {
        if name != Some(known.as_bytes()) {
            continue;
        }
        let text = value.map(String::from_utf8_lossy);
        let text = text.as_deref();
        match text.map_or(Ok(default), str::parse) {
            Ok(given) => *number = given,
            Err(_) => eprintln!(
                "{FOLDER}{known} is {:?}, which is no number",
                text.unwrap_or_default()
            ),
        }
    }
}

async fn follow(client: &Client) -> Result<(), Error> {
    let mut settings = DEFAULTS;
    let mut used = None;
    let mut is_complete = false;
    let mut changes = client.observe_matching(format!("{FOLDER}*")).await?;
    while let Some(change) = changes.next().await {
        match change {
            MatchObservation::Set { key, value, .. } => apply(&mut settings, &key, Some(&value)),
            MatchObservation::Deleted { key, .. } => apply(&mut settings, &key, None),
            // Changes may have been missed. The differences follow, and the line waits for all of them.
            MatchObservation::Resync => is_complete = false,
            MatchObservation::Complete | MatchObservation::Resynced => is_complete = true,
            _ => {}
        }
        if is_complete && used.replace(settings) != Some(settings) {
            let list = settings.map(|(name, number)| format!("{name} {number}"));
            println!("the line runs with {}", list.join(", "));
        }
    }
    changes.error().map_or(Ok(()), Err)
}

async fn run() -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let client = Client::connect(Settings::from_url(&url)?).await?;
    let mut arguments = std::env::args().skip(1);
    if let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        client.set(format!("{FOLDER}{name}"), value).await?;
    } else {
        tokio::select! {
            // Ctrl-C first, so that it is handled before the program prints anything.
            biased;
            _ = tokio::signal::ctrl_c() => {}
            done = follow(&client) => done?,
        }
    }
    client.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("{:?}: {error}", error.kind());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
