//! Servers for the clients: a `statestored` in this process, and a port that closes every connection.
use statestored::RunningServer;
use statestored::config::Config;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// Number of inputs after which a new server starts, because keys of former inputs use memory.
const INPUTS: usize = 300;

static SERVER: Mutex<Option<(RunningServer, usize)>> = Mutex::new(None);

static FAULTY: LazyLock<String> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    thread::spawn(move || listener.incoming().for_each(drop));
    format!("mqtt://{address}")
});

/// An input begins.
pub(crate) fn begin() {
    LazyLock::force(&FAULTY);
    let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let former = server.take().filter(|(_, inputs)| *inputs < INPUTS);
    let (running, inputs) = former.unwrap_or_else(|| {
        let config = Config::in_memory();
        (RunningServer::start(config).expect("it starts"), 0)
    });
    *server = Some((running, inputs + 1));
}

/// The number of the input, which is a part of its keys: what another one stored is not seen.
pub(crate) fn input() -> usize {
    let server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    server.as_ref().map_or(0, |(_, inputs)| *inputs)
}

/// The address of the server, with a scheme.
pub(crate) fn url_with(scheme: &str) -> Vec<u8> {
    let server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let (running, _) = server.as_ref().expect("it runs");
    format!("{scheme}://{}", running.addresses()[0]).into_bytes()
}

pub(crate) fn faulty_url() -> Vec<u8> {
    FAULTY.clone().into_bytes()
}
