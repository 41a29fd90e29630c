//! `statestored`: the state store on one machine.
#![forbid(unsafe_code)]
mod core_dumps;
mod open_files;

use clap::Parser;
use statestored::config::Arguments;
use statestored::{Control, Reloaded, Server};
use std::convert::Infallible;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(arguments.log_level())
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("statestored: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    if !arguments.keeps_core_dumps() {
        core_dumps::disable();
    }
    let config = arguments.into_config()?;
    open_files::raise_limit(config.limits.max_connections);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        let shutdown = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("stopping");
        };
        let mut shutdown = pin!(shutdown);
        let server = tokio::select! {
            server = Server::start(config) => server?,
            () = &mut shutdown => return Ok(()),
        };
        let mut stdout = std::io::stdout().lock();
        for address in server.addresses() {
            writeln!(stdout, "listening on tcp://{address}")?;
        }
        stdout.flush()?;
        drop(stdout);
        let control = server.control();
        tokio::select! {
            ended = server.run(shutdown) => Ok(ended?),
            never = reload_at(hangup, &control) => match never {},
        }
    })
}

/// Reads again what can change while the server runs, at each of these signals.
async fn reload_at(mut signals: Signal, control: &Control) -> Infallible {
    while signals.recv().await.is_some() {
        reload(control).await;
    }
    std::future::pending().await
}

async fn reload(control: &Control) {
    match control.reload().await {
        Ok(Reloaded {
            users: Some(users),
            disconnected,
            ..
        }) => tracing::info!(users, disconnected, "the users were read again"),
        Ok(_) => tracing::info!("there is no file of users to read again"),
        Err(error) => tracing::error!("cannot reload: {error}"),
    }
}
