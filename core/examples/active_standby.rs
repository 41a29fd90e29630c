//! An election: one program is active, the others stand by, and one of them takes over.
//!
//! ```sh
//! cargo run --example active_standby -- NAME [ROUNDS]
//! ```
//!
//! Start it twice with different names. The active program works until Ctrl-C, or for so many rounds. `STATESTORE_URL` is the address of
//! the server.
use statestore::{Client, Error, ErrorKind, LeaseOptions, LockOptions, Settings};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Waits for the lead, and works until the rounds have ended or the lead is lost.
async fn lead(client: &Client, name: &str, rounds: &mut Range<u64>) -> Result<(), Error> {
    let lease = LeaseOptions::new().duration(Duration::from_secs(2));
    let election = client.election_with("line-1/active", &LockOptions::new().lease(lease))?;
    println!("{name} stands by");
    let leadership = election.campaign(name).await?;
    println!("{name} is active");
    for round in rounds {
        let plan = format!("round {round} of {name}");
        // The store rejects this write once a later leader has written the key.
        leadership.guard().set("line-1/plan", plan).await?;
        tokio::select! {
            () = sleep(Duration::from_millis(500)) => {}
            _ = leadership.guard().lost() => break,
        }
    }
    // Resigns, and fails with `LockLost` if the lead was lost.
    leadership.finish().await
}

async fn run(name: &str) -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let rounds = std::env::args().nth(2).and_then(|text| text.parse().ok());
    let mut rounds = 0..rounds.unwrap_or(u64::MAX);
    let client = Client::connect(Settings::from_url(&url)?).await?;
    let standing = async {
        loop {
            match lead(&client, name, &mut rounds).await {
                Err(error) if error.is_retryable() || error.kind() == ErrorKind::LockLost => {
                    eprintln!("{name} is not active: {error}");
                    sleep(Duration::from_secs(1)).await;
                }
                done => return done,
            }
        }
    };
    tokio::select! {
        // Ctrl-C first, so that it is handled before the program prints anything.
        biased;
        _ = tokio::signal::ctrl_c() => {}
        done = standing => done?,
    }
    // Also resigns after Ctrl-C.
    client.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        eprintln!("usage: active_standby NAME [ROUNDS]");
        return ExitCode::from(2);
    };
    if let Err(error) = run(&name).await {
        eprintln!("{:?}: {error}", error.kind());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
