//! A setting that other programs follow: the speed of a line.
//!
//! ```sh
//! cargo run --example follow_setting               # follows the setting until Ctrl-C
//! cargo run --example follow_setting -- SPEED      # changes it
//! ```
//!
//! `STATESTORE_URL` is the address of the server.
use statestore::{Client, Error, Observation, Settings};
use std::process::ExitCode;

const KEY: &str = "line-1/speed";
const DEFAULT: u32 = 60;

/// Applies the value of the setting; `None` if it is not set. A value that is no number changes nothing.
fn apply(present: &mut Option<u32>, value: Option<&[u8]>) {
    let text = value.map(String::from_utf8_lossy);
    let text = text.as_deref();
    let Ok(speed) = text.map_or(Ok(DEFAULT), str::parse) else {
        eprintln!(
            "{KEY} is {:?}, which is no number",
            text.unwrap_or_default()
        );
        return;
    };
    if present.replace(speed) != Some(speed) {
        println!("the line runs at {speed}");
    }
}

async fn follow(client: &Client) -> Result<(), Error> {
    let mut present = None;
    // Observes first and reads then, so that no change between the two is missed.
    let mut changes = client.observe(KEY).await?;
    let entry = client.get(KEY).await?;
    apply(&mut present, entry.as_ref().map(|entry| &entry.value[..]));
    while let Some(change) = changes.next().await {
        match change {
            Observation::Set { value, .. } => apply(&mut present, Some(&value)),
            Observation::Deleted { .. } => apply(&mut present, None),
            // The connection was lost. An observation of the present value follows.
            _ => {}
        }
    }
    changes.error().map_or(Ok(()), Err)
}

async fn run() -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let client = Client::connect(Settings::from_url(&url)?).await?;
    if let Some(speed) = std::env::args().nth(1) {
        client.set(KEY, speed).await?;
    } else {
        tokio::select! {
            done = follow(&client) => done?,
            _ = tokio::signal::ctrl_c() => {}
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
