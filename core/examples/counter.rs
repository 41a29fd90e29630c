//! Counts for as long as somebody listens, whatever becomes of the servers: `counter mqtt://HOST:PORT,HOST:PORT/`.
//!
//! Says twice a second how far it has come, and the longest time that one step took. It ends when its input does, and checks then that
//! nothing was lost: what is stored is at least what it was told of, and at most that and the steps of which nobody knows.
use statestore::{Client, Outcome, Settings};
use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it says how far it has come.
const EVERY: Duration = Duration::from_millis(500);

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: counter URL")?;
    // Who is silent for a second is left for another one.
    let settings = Settings::from_url(&url)?
        .keep_alive(Duration::from_secs(1))
        .ping_timeout(Duration::from_secs(1));
    let client = Client::connect(settings).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    std::thread::spawn(move || {
        // However the input ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ends.store(true, Ordering::Relaxed);
    });

    let before = client.get("count").await?;
    let before = before.and_then(|entry| number(&entry.value)).unwrap_or(0);
    let (mut done, mut unknown, mut longest) = (0, 0, Duration::ZERO);
    let mut answered = Instant::now();
    let mut told = answered;
    while !is_over.load(Ordering::Relaxed) {
        let step = client.update("count", |old| {
            let count = old.and_then(|entry| number(&entry.value)).unwrap_or(0);
            Some((count + 1).to_string())
        });
        match step.await {
            Ok(_) => done += 1,
            Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
            // It certainly did not happen.
            Err(_) => continue,
        }
        longest = longest.max(answered.elapsed());
        answered = Instant::now();
        if told.elapsed() >= EVERY {
            told = answered;
            println!(
                "counted {done}, the longest step took {:.2} s",
                longest.as_secs_f64()
            );
        }
    }
    let last = client.get("count").await?;
    let last = last.and_then(|entry| number(&entry.value)).unwrap_or(0);
    println!(
        "stored {}, counted {done}, {unknown} steps of which nobody knows, the longest took {:.2} s",
        last - before,
        longest.as_secs_f64()
    );
    client.close().await;
    let is_right = before + done <= last && last <= before + done + unknown;
    is_right
        .then_some(())
        .ok_or("counts were lost, or made twice".into())
}
