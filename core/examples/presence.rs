//! Presence: each gateway announces itself by a key that expires unless it is renewed.
//!
//! ```sh
//! cargo run --example presence -- NAME     # announces the gateway NAME until Ctrl-C
//! cargo run --example presence             # prints the gateways that are present
//! ```
//!
//! `STATESTORE_URL` is the address of the server.
use statestore::{Client, Error, SetOptions, Settings};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Three announcements may fail before the gateway counts as gone.
const EXPIRES_IN: Duration = Duration::from_secs(3);

/// Announces a gateway. Returns at the first error that is not retryable.
async fn announce(client: &Client, name: &str) -> Result<(), Error> {
    let key = format!("gateways/{name}");
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

async fn show(client: &Client) -> Result<(), Error> {
    let mut keys = Vec::new();
    let mut scan = client.scan("gateways/*");
    while let Some(key) = scan.next().await? {
        keys.push(key);
    }
    keys.sort();
    for (key, entry) in keys.iter().zip(client.get_many(&keys).await?) {
        // A key may expire between the two calls.
        if let Some(entry) = entry {
            let name = String::from_utf8_lossy(&key["gateways/".len()..]);
            println!("{name}: {}", String::from_utf8_lossy(&entry.value));
        }
    }
    Ok(())
}

async fn run() -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let client = Client::connect(Settings::from_url(&url)?).await?;
    if let Some(name) = std::env::args().nth(1) {
        tokio::select! {
            done = announce(&client, &name) => done?,
            _ = tokio::signal::ctrl_c() => {}
        }
        // The others see at once that the gateway is gone.
        client.del(format!("gateways/{name}")).await?;
    } else {
        show(&client).await?;
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
