//! A cache in front of something slow, shared by all programs. Its entries expire by themselves.
//!
//! ```sh
//! cargo run --example cache -- [MACHINE]
//! ```
//!
//! Run it twice: the second run finds the value that the first run stored. `STATESTORE_URL` is the address of the server.
use statestore::{Client, Error, GetOptions, SetOptions, Settings, bytes::Bytes};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Returns the cached value of a key, or computes and stores it. Without the store, every call computes.
async fn get_or_compute<F: Future<Output = String>>(
    client: &Client,
    key: &str,
    compute: impl FnOnce() -> F,
    expires_in: Duration,
) -> Bytes {
    let timeout = Duration::from_secs(1);
    match client
        .get_with(key, &GetOptions::new().timeout(timeout))
        .await
    {
        Ok(Some(entry)) => return entry.value,
        Ok(None) => {}
        Err(error) => eprintln!("the cache was not read: {error}"),
    }
    let value = Bytes::from(compute().await);
    let options = SetOptions::new().expires_in(expires_in).timeout(timeout);
    if let Err(error) = client.set_with(key, &value, &options).await {
        eprintln!("the cache was not written: {error}");
    }
    value
}

/// Simulates a slow machine.
async fn read_plate(machine: &str) -> String {
    println!("reading the plate of {machine}");
    sleep(Duration::from_millis(200)).await;
    "Contoso 400".to_owned()
}

async fn run() -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let machine = std::env::args().nth(1);
    let machine = machine.unwrap_or_else(|| "press-1".to_owned());
    let client = Client::connect(Settings::from_url(&url)?).await?;
    let key = format!("cache/plate/{machine}");
    for _ in 0..3 {
        let compute = || read_plate(&machine);
        let plate = get_or_compute(&client, &key, compute, Duration::from_secs(60)).await;
        println!("{machine}: {}", String::from_utf8_lossy(&plate));
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
