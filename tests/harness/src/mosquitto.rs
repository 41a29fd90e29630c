//! A private Mosquitto with its default limits.
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Name of the configuration file in the broker's folder.
const CONFIG: &str = "mosquitto.conf";

/// A running broker; dropping it ends the process.
#[derive(Debug)]
pub struct Mosquitto {
    process: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Mosquitto {
    /// Starts a broker on a free port of the loopback interface, and waits until it listens.
    ///
    /// # Panics
    /// Mosquitto is not installed.
    pub fn start() -> Self {
        Self::start_with("allow_anonymous true\n")
    }

    /// Starts a broker with further lines of configuration, after those about its port.
    ///
    /// # Panics
    /// Mosquitto is not installed, or does not accept the lines.
    pub fn start_with(lines: &str) -> Self {
        let lines = lines.to_owned();
        // Another process may take a port between its choice and its use.
        let attempt = || {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
            Self::start_on(port.unwrap(), &lines)
        };
        std::iter::repeat_with(attempt)
            .take(5)
            .find_map(|broker| broker)
            .expect("Mosquitto starts on one of five free ports")
    }

    /// Kills the broker, which cuts all connections.
    pub fn kill(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts the broker again after it was [killed](Self::kill), on the same port and with no state.
    ///
    /// # Panics
    /// Another process has taken the port.
    pub fn restart(&mut self) {
        self.process = run(&self.folder).expect("the port is still free");
    }

    /// Starts a broker with a second listener, for MQTT over WebSocket; returns its address too. `None` if Mosquitto was built
    /// without WebSocket.
    pub fn start_with_websocket() -> Option<(Self, SocketAddr)> {
        let port = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let attempt = || {
            let (address, websocket) = (port().unwrap(), port().unwrap());
            let port = websocket.port();
            let lines =
                format!("allow_anonymous true\nlistener {port} 127.0.0.1\nprotocol websockets\n");
            let broker = Self::start_on(address, &lines)?;
            // A broker without WebSocket support runs with the other listener alone.
            TcpStream::connect(websocket).ok()?;
            Some((broker, websocket))
        };
        std::iter::repeat_with(attempt)
            .take(5)
            .find_map(|broker| broker)
    }

    fn start_on(address: SocketAddr, lines: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let port = address.port();
        let own = format!("persistence false\nlog_dest stderr\nlistener {port} 127.0.0.1\n{lines}");
        std::fs::write(folder.path().join(CONFIG), own).unwrap();
        Some(Self {
            process: run(&folder)?,
            address,
            folder,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Starts a broker with the configuration in this folder, and waits until it listens; `None` if it does not.
fn run(folder: &TempDir) -> Option<Child> {
    let config = folder.path().join(CONFIG);
    let mut process = spawn(&["-c", config.to_str().unwrap()]);
    let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
    let listens = log
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.ends_with(" running"));
    if !listens {
        process.wait().unwrap();
        return None;
    }
    // The broker would block if its log were not read.
    std::thread::spawn(move || log.map_while(Result::ok).for_each(drop));
    Some(process)
}

/// Starts Mosquitto. Debian installs it in a folder that only the PATH of administrators has.
fn spawn(arguments: &[&str]) -> Child {
    for program in [
        "mosquitto",
        "/usr/sbin/mosquitto",
        "/usr/local/sbin/mosquitto",
    ] {
        let spawned = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        match spawned {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            spawned => return spawned.unwrap(),
        }
    }
    panic!(
        "this test needs the broker Mosquitto. Debian and Ubuntu: `scripts/test packages`, or \
         `apt-get install mosquitto`; its system service need not run"
    );
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}
