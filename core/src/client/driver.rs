//! The task that moves bytes between the session and its transport, and connects again when the transport is gone.
use super::ConnectionState;
use super::backoff::Backoff;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Outcome};
use crate::mqtt::ReasonCode;
use crate::mqtt::session::SessionError;
use crate::request::Received;
use crate::settings::Credentials;
use crate::transport::{self, Stream, TransportError};
use bytes::{Buf, Bytes, BytesMut};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// A connection that held this long was a good one: the next failure starts with an immediate attempt.
const GOOD: Duration = Duration::from_secs(5);
/// How long a last DISCONNECT may take to be written.
const GOODBYE: Duration = Duration::from_secs(1);
/// Room for one read, in bytes.
const READ: usize = 64 * 1024;
/// Packets handled under one lock.
const BUDGET: usize = 64;

/// Why a connection is over.
#[derive(Debug)]
enum Lost {
    /// The client is to end.
    Closing,
    Transport(TransportError),
    TimedOut,
    Ended,
    Io(io::Error),
    Session(SessionError),
}

/// Drives the client until it is closed. `first` is told how the first attempt to connect went; if it failed, that was
/// all.
pub(super) async fn run(shared: Arc<Shared>, first: oneshot::Sender<Result<(), Error>>) {
    let mut first = Some(first);
    let mut backoff = Backoff::new(
        shared.settings.reconnect_delay_min,
        shared.settings.reconnect_delay_max,
    );
    let mut ticker = Ticker::new(&shared);
    let reason = loop {
        let (lost, held) = connect_and_run(&shared, &mut ticker, &mut first).await;
        {
            let mut core = shared.core();
            core.exchange.connection_lost();
            let counters = &mut core.exchange.counters;
            counters.protocol_errors += u64::from(lost.is_protocol_error());
        }
        if let Lost::Closing = lost {
            break Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                "the client",
                "it was closed",
            );
        }
        let for_good = lost.is_for_good();
        let error = lost.into_error(&shared.settings.address());
        if let Some(first) = first.take() {
            shared.close();
            // Nobody waits if the caller gave up connecting.
            let _ = first.send(Err(error));
            break Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                "the client",
                "it could not connect",
            );
        }
        tracing::warn!(reason = %error, "the connection to the broker is lost");
        if for_good {
            shared.close();
            break error;
        }
        if held.is_some_and(|since| since.elapsed() >= GOOD) {
            backoff.reset();
        }
        shared
            .state
            .send_replace(ConnectionState::Reconnecting(Arc::new(error)));
        let delay = backoff.next(shared.settings.platform.random().unwrap_or(u64::MAX));
        let wait = tokio::time::sleep(delay);
        if ticker.meanwhile(&shared, wait).await.is_none() {
            break Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                "the client",
                "it was closed",
            );
        }
    };
    shared.watches.close();
    shared
        .state
        .send_replace(ConnectionState::Closed(Arc::new(reason)));
}

/// One connection, from the name lookup to its end; since when it was ready.
async fn connect_and_run(
    shared: &Shared,
    ticker: &mut Ticker,
    first: &mut Option<oneshot::Sender<Result<(), Error>>>,
) -> (Lost, Option<Instant>) {
    let deadline = Instant::now() + shared.settings.connect_timeout;
    let connecting = tokio::time::timeout_at(deadline, transport::connect(&shared.settings));
    let (io, credentials) = match ticker.meanwhile(shared, connecting).await {
        None => return (Lost::Closing, None),
        Some(Err(_)) => return (Lost::TimedOut, None),
        Some(Ok(Err(error))) => return (Lost::Transport(error), None),
        Some(Ok(Ok(connected))) => connected,
    };
    let mut connection = Connection::new(shared, ticker, io);
    let mut held = None;
    let lost = match connection.start(credentials) {
        Err(lost) => lost,
        Ok(()) => match tokio::time::timeout_at(deadline, connection.run(true)).await {
            Err(_) => Lost::TimedOut,
            Ok(Err(lost)) => lost,
            Ok(Ok(())) => {
                held = Some(Instant::now());
                if let Some(first) = first.take() {
                    // Nobody waits if the caller gave up connecting.
                    let _ = first.send(Ok(()));
                } else {
                    shared.core().exchange.counters.reconnects += 1;
                    shared.watches.resync();
                }
                shared.state.send_replace(ConnectionState::Connected);
                connection.deliver();
                match connection.run(false).await {
                    Err(lost) => lost,
                    Ok(()) => Lost::Ended,
                }
            }
        },
    };
    connection.say_goodbye(&lost).await;
    (lost.explained(&connection.io), held)
}

/// Lets time pass for the requests, whatever the connection does.
#[derive(Debug)]
struct Ticker {
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, in milliseconds of the session.
    at_ms: u64,
    wakers: Vec<Waker>,
}

impl Ticker {
    fn new(shared: &Shared) -> Self {
        Self {
            sleep: Box::pin(sleep_until(shared.instant(0))),
            at_ms: 0,
            wakers: Vec::new(),
        }
    }

    /// Ends requests whose time is up, and goes to sleep: registers for the next time and for callers. `is_idle` says
    /// that output would be written at once. Ready if there is output for an idle driver, if the session failed, or if
    /// the client is to end.
    fn poll(
        &mut self,
        shared: &Shared,
        is_idle: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Lost>> {
        loop {
            let now_ms = shared.now_ms();
            let wake_at_ms = {
                let mut core = shared.core();
                if core.closing {
                    return Poll::Ready(Err(Lost::Closing));
                }
                let advanced = core.exchange.advance(now_ms, &mut self.wakers);
                let has_output = core.exchange.session().has_output();
                let wake_at_ms = core.exchange.wake_at_ms().unwrap_or(u64::MAX);
                if advanced.is_ok() && !(is_idle && has_output) {
                    core.driver.is_idle = is_idle;
                    match &mut core.driver.waker {
                        Some(waker) => waker.clone_from(context.waker()),
                        none => *none = Some(context.waker().clone()),
                    }
                    // A timer that runs may end earlier than needed, which is cheaper than setting it anew.
                    core.driver.wakes_at_ms = if self.at_ms > now_ms {
                        wake_at_ms.min(self.at_ms)
                    } else {
                        wake_at_ms
                    };
                }
                drop(core);
                self.wakers.drain(..).for_each(Waker::wake);
                match advanced {
                    Err(error) => return Poll::Ready(Err(Lost::Session(error))),
                    Ok(()) if is_idle && has_output => return Poll::Ready(Ok(())),
                    Ok(()) => wake_at_ms,
                }
            };
            if wake_at_ms < self.at_ms || self.at_ms <= now_ms {
                self.at_ms = wake_at_ms;
                self.sleep.as_mut().reset(shared.instant(wake_at_ms));
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // The timer ended: look again, and set it anew.
            self.at_ms = 0;
        }
    }

    /// Waits for something else while there is no connection; `None` if the client is to end.
    async fn meanwhile<F: Future>(&mut self, shared: &Shared, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            match self.poll(shared, false, context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(_) => Poll::Ready(None),
            }
        })
        .await
    }
}

/// One transport with the bytes on their way.
#[derive(Debug)]
struct Connection<'a, S> {
    shared: &'a Shared,
    ticker: &'a mut Ticker,
    io: S,
    input: BytesMut,
    output: Bytes,
    /// The transport may hold back what it took.
    unflushed: bool,
    received: Received,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    fn new(shared: &'a Shared, ticker: &'a mut Ticker, io: S) -> Self {
        Self {
            shared,
            ticker,
            io,
            input: BytesMut::with_capacity(READ),
            output: Bytes::new(),
            unflushed: false,
            received: Received::default(),
        }
    }

    fn start(&mut self, credentials: Credentials) -> Result<(), Lost> {
        let now_ms = self.shared.now_ms();
        let mut core = self.shared.core();
        let session = core.exchange.session_mut();
        session.set_credentials(
            credentials.user_name,
            credentials.password,
            credentials.authentication,
        );
        session.connect(now_ms).map_err(Lost::Session)
    }

    /// Moves bytes until the session is ready, if `until_ready`, or else until the connection is over.
    async fn run(&mut self, until_ready: bool) -> Result<(), Lost> {
        poll_fn(|context| {
            loop {
                if until_ready && self.received.ready.is_some() {
                    return Poll::Ready(Ok(()));
                }
                let read = self.poll_read(context)?;
                self.exchange(read)?;
                if !until_ready {
                    self.deliver();
                }
                let written = self.poll_write(context)?;
                if read || written {
                    continue;
                }
                match self
                    .ticker
                    .poll(self.shared, self.output.is_empty(), context)
                {
                    Poll::Pending if until_ready && self.received.ready.is_some() => {}
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(lost)) => return Poll::Ready(Err(lost)),
                }
            }
        })
        .await
    }

    /// Reads once; whether something came.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        if self.input.capacity() - self.input.len() < READ / 4 {
            self.input.reserve(READ);
        }
        match pin!(self.io.read_buf(&mut self.input)).poll(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(Lost::Ended),
            Poll::Ready(Ok(_)) => Ok(true),
            // TLS without its own farewell.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Lost::Ended)
            }
            Poll::Ready(Err(error)) => Err(Lost::Io(error)),
        }
    }

    /// Handles what was read, and takes what is to be written.
    fn exchange(&mut self, read: bool) -> Result<(), Lost> {
        let now_ms = self.shared.now_ms();
        let mut more = read;
        loop {
            let result = {
                let mut core = self.shared.core();
                let result = if more {
                    core.exchange
                        .receive(&mut self.input, now_ms, BUDGET, &mut self.received)
                } else {
                    Ok(false)
                };
                if self.output.is_empty() && !matches!(result, Ok(true)) {
                    self.output = core.exchange.session_mut().take_output(now_ms);
                }
                result
            };
            self.received.wakers.drain(..).for_each(Waker::wake);
            more = result.map_err(Lost::Session)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Hands messages over that are not responses.
    fn deliver(&mut self) {
        for message in self.received.messages.drain(..) {
            self.shared.notified(&message);
        }
    }

    /// Writes as much as the transport takes; whether it took all.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        let mut written = false;
        while !self.output.is_empty() {
            match Pin::new(&mut self.io).poll_write(context, &self.output) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) => return Err(Lost::Io(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.output.advance(count);
                    written = true;
                }
                Poll::Ready(Err(error)) => return Err(Lost::Io(error)),
            }
        }
        self.unflushed |= written;
        if self.unflushed {
            match Pin::new(&mut self.io).poll_flush(context) {
                Poll::Ready(Err(error)) => return Err(Lost::Io(error)),
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Pending => {}
            }
        }
        Ok(written)
    }

    /// Tells the broker that and why the connection ends, as far as that is possible.
    async fn say_goodbye(&mut self, lost: &Lost) {
        let (reason, session_expiry_s) = match lost {
            // A session that nobody continues need not be kept.
            Lost::Closing => (
                Some(ReasonCode::SUCCESS),
                self.shared.settings.clean_start.then_some(0),
            ),
            Lost::Session(error) => (error.reason(), None),
            Lost::TimedOut => (Some(ReasonCode::SUCCESS), None),
            Lost::Transport(_) | Lost::Ended | Lost::Io(_) => (None, None),
        };
        let Some(reason) = reason else { return };
        let disconnect = {
            let mut core = self.shared.core();
            let session = core.exchange.session_mut();
            session.disconnect(reason, session_expiry_s);
            session.take_output(self.shared.now_ms())
        };
        let goodbye = async {
            self.io.write_all(&self.output).await?;
            self.io.write_all(&disconnect).await?;
            self.io.shutdown().await
        };
        // A broker that does not take it learns it from the end of the stream.
        let _ = timeout(GOODBYE, goodbye).await;
    }
}

impl Lost {
    fn is_protocol_error(&self) -> bool {
        use SessionError::{Alias, Decode, Protocol};
        matches!(self, Self::Session(Alias(_) | Decode(_) | Protocol(_)))
    }

    /// Whether connecting again would do harm: another client with this client id took the session over, and would lose
    /// it to this one.
    fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::Session(SessionError::Disconnected(disconnect))
                if disconnect.reason == ReasonCode::SESSION_TAKEN_OVER
        )
    }

    /// With what `stream` knows about an error of its own.
    fn explained(self, stream: &Stream) -> Self {
        match self {
            Self::Io(error) => match stream.explain(&error) {
                Some(failure) => Self::Transport(failure),
                None => Self::Io(error),
            },
            other => other,
        }
    }

    fn into_error(self, address: &str) -> Error {
        let action = format!("connecting to {address}");
        let error = |kind, reason: String| Error::new(kind, Outcome::NotDone, action, reason);
        match self {
            Self::Closing => error(ErrorKind::Closed, "the client was closed".into()),
            Self::Transport(failure) => error(failure.kind, failure.reason),
            Self::Io(source) => {
                error(ErrorKind::Unreachable, source.to_string()).with_source(source)
            }
            Self::TimedOut => error(
                ErrorKind::Unreachable,
                "the broker did not answer in time".into(),
            ),
            Self::Ended => error(
                ErrorKind::Unreachable,
                "the broker closed the connection".into(),
            ),
            Self::Session(source) => {
                let (kind, reason) = match &source {
                    SessionError::Refused(connack) => {
                        (refusal(connack.reason), Some(connack.reason))
                    }
                    SessionError::SubscriptionRefused { reason, .. } => {
                        (refusal(*reason), Some(*reason))
                    }
                    SessionError::Disconnected(disconnect) => {
                        let kind = match refusal(disconnect.reason) {
                            ErrorKind::NotAuthenticated => ErrorKind::NotAuthenticated,
                            _ => ErrorKind::Unreachable,
                        };
                        (kind, Some(disconnect.reason))
                    }
                    SessionError::PeerDead => (ErrorKind::Unreachable, None),
                    _ => (ErrorKind::ConnectionRefused, None),
                };
                error(kind, source.to_string())
                    .with_mqtt_reason(reason)
                    .with_source(source)
            }
        }
    }
}

fn refusal(reason: ReasonCode) -> ErrorKind {
    match reason {
        ReasonCode::BAD_USER_NAME_OR_PASSWORD
        | ReasonCode::NOT_AUTHORIZED
        | ReasonCode::BAD_AUTHENTICATION_METHOD
        | ReasonCode::BANNED => ErrorKind::NotAuthenticated,
        _ => ErrorKind::ConnectionRefused,
    }
}
