//! Presence: each gateway announces itself by a key that expires unless it is renewed.
//!
//! ```sh
//! cargo run --example presence -- NAME     # announces the gateway NAME until Ctrl-C
//! cargo run --example presence             # prints the present gateways, and each that comes or goes, until Ctrl-C
//! ```
//!
//! `STATESTORE_URL` is the address of the server.
use statestore::{Client, DelOptions, Error, MatchObservation, SetOptions, Settings};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

const FOLDER: &str = "gateways/";
/// Three announcements may fail before the gateway counts as gone.
const EXPIRES_IN: Duration = Duration::from_secs(3);

/// Announces a gateway. Returns at the first error that is not retryable.
async fn announce(client: &Client, name: &str) -> Result<(), Error> {
    let key = format!("{FOLDER}{name}");
    let options = SetOptions::new().expires_in(EXPIRES_IN).timeout(EXPIRES_IN);
    let value = format!("process {}", std::process::id());
    loop {
        match client.set_with(&key, &value, &options).await {
            Ok(_) => println!("{name} is announced"),
            Err(error) if error.is_retryable() => eprintln!("{name} was not announced: {error}"),
            Err(error) => return Err(error),
        }
        sleep(EXPIRES_IN / 3).await;
    }
}

/// Prints the gateways that are present, and then each that comes or goes.
async fn watch(client: &Client) -> Result<(), Error> {
    let gateways = client.mirror(format!("{FOLDER}*")).await?;
    // Subscribes first and reads then, so that no change between the two is missed.
    let mut changes = gateways.changes();
    gateways.synced().await?;
    let mut present = BTreeMap::new();
    for (key, entry) in &*gateways.snapshot() {
        present.insert(key.clone(), entry.value.clone());
    }
    for (key, value) in &present {
        print(key, value);
    }
    println!("gateways present: {}", present.len());
    while let Some(change) = changes.next().await {
        match change {
            // A renewal sets the same value again.
            MatchObservation::Set { key, value, .. } if present.get(&key) != Some(&value) => {
                print(&key, &value);
                present.insert(key, value);
            }
            MatchObservation::Deleted { key, .. } if present.remove(&key).is_some() => {
                println!("{} is gone", name_of(&key));
            }
            // After `Resync` changes may have been missed. The differences follow.
            _ => {}
        }
    }
    gateways.error().map_or(Ok(()), Err)
}

fn print(key: &[u8], value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    println!("{} is present: {value}", name_of(key));
}

fn name_of(key: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&key[FOLDER.len()..])
}

async fn run() -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let client = Client::connect(Settings::from_url(&url)?).await?;
    if let Some(name) = std::env::args().nth(1) {
        tokio::select! {
            // Ctrl-C first, so that it is handled before the program prints anything.
            biased;
            _ = tokio::signal::ctrl_c() => {}
            done = announce(&client, &name) => done?,
        }
        // The others see at once that the gateway is gone.
        let key = format!("{FOLDER}{name}");
        let options = DelOptions::new().timeout(EXPIRES_IN);
        client.del_with(key, &options).await?;
    } else {
        tokio::select! {
            // Ctrl-C first, so that it is handled before the program prints anything.
            biased;
            _ = tokio::signal::ctrl_c() => {}
            done = watch(&client) => done?,
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
