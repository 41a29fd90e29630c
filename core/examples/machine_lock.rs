//! A lock around a machine: one program at a time moves the press.
//!
//! ```sh
//! cargo run --example machine_lock -- [STROKES]
//! ```
//!
//! Run it twice at once: the second program waits. Ctrl-C stops the press and releases the lock. `STATESTORE_URL` is the address of the
//! server.
use statestore::{Client, Error, Guard, Hlc, LeaseOptions, LockOptions, Settings};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// A simulated machine. Dropping it stops it.
struct Press;

impl Press {
    /// Moves the press. A real drive compares the token, and rejects one that is lower than the highest it has seen.
    async fn stroke(&self, number: u32, token: &Hlc) {
        println!("stroke {number} with the token {token}");
        sleep(Duration::from_millis(200)).await;
    }
}

impl Drop for Press {
    fn drop(&mut self) {
        println!("the press stands still");
    }
}

async fn work(guard: &Guard, strokes: u32) -> Result<(), Error> {
    let press = Press;
    for number in 1..=strokes {
        press.stroke(number, guard.token()).await;
        // The store rejects this write once a later holder has written the key.
        guard.set("press-1/strokes", number.to_string()).await?;
    }
    Ok(())
}

async fn run() -> Result<(), Error> {
    let url = std::env::var("STATESTORE_URL");
    let url = url.unwrap_or_else(|_| "mqtt://127.0.0.1:1883".to_owned());
    let strokes = std::env::args().nth(1);
    let strokes = strokes.and_then(|text| text.parse().ok()).unwrap_or(3);
    let client = Client::connect(Settings::from_url(&url)?).await?;
    let lease = LeaseOptions::new().duration(Duration::from_secs(2));
    let options = LockOptions::new()
        .lease(lease)
        .wait(Duration::from_secs(30));
    let strokes = async {
        println!("waiting for the press");
        // Drops the work if the lock is lost, and fails with `LockLost` then. That stops the press.
        let work = async |guard: &Guard| work(guard, strokes).await;
        client.with_lock("press-1/owner", &options, work).await
    };
    tokio::select! {
        // Ctrl-C first, so that it is handled before the program prints anything.
        biased;
        _ = tokio::signal::ctrl_c() => {}
        done = strokes => done?,
    }
    // Also releases the lock after Ctrl-C.
    client.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        // `LockHeld`: another program still uses the press. `LockLost`: parts of the work may have run without the lock.
        eprintln!("{:?}: {error}", error.kind());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
