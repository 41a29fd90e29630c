//! A connection, which moves bytes between the session and its transport.
use super::foreign_protocol::ForeignProtocol;
use super::input::Input;
use super::lost::Lost;
use super::output::{Output, Progress};
use super::shared::Shared;
use super::ticker::Ticker;
use crate::request::Received;
use crate::settings::Credentials;
use bytes::BytesMut;
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::mqtt::session::SessionError;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, timeout};

/// Time limit for writing the last DISCONNECT.
const GOODBYE: Duration = Duration::from_secs(1);
/// Time for which a transport that accepts no more bytes is still read.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum number of packets handled at a time. With dozens of requests in flight, the broker receives new requests before the
/// client has handled all responses, so that both work in parallel.
const BUDGET: usize = 64;

/// State of a transport that accepts no more bytes.
#[derive(Debug)]
struct Broken {
    error: io::Error,
    last_words: Pin<Box<Sleep>>,
}

/// A transport with its buffered input and output.
#[derive(Debug)]
pub(super) struct Connection<'a, S> {
    shared: &'a Shared,
    ticker: &'a mut Ticker,
    pub(super) io: S,
    input: Input,
    /// Whether `input` may hold complete packets.
    more: bool,
    output: Output,
    broken: Option<Broken>,
    received: Received,
    /// First bytes received from the server.
    first: Vec<u8>,
    /// Client id of the notification topics; empty until the first message arrives.
    client_id: String,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(shared: &'a Shared, ticker: &'a mut Ticker, io: S) -> Self {
        Self {
            shared,
            ticker,
            io,
            input: Input::new(),
            more: false,
            output: Output::default(),
            broken: None,
            received: Received::default(),
            first: Vec::new(),
            client_id: String::new(),
        }
    }

    pub(super) fn start(&mut self, credentials: Credentials) -> Result<(), Lost> {
        let now_ms = self.shared.now_ms();
        let mut core = self.shared.core();
        core.exchange.session_mut().set_credentials(
            credentials.user_name,
            credentials.password,
            credentials.authentication,
        );
        let connecting = core.exchange.connect(now_ms);
        self.input
            .set_max_packet_bytes(core.exchange.session().max_packet_bytes());
        connecting.map_err(Lost::Session)
    }

    /// Moves bytes until the session is ready, if `until_ready`, or else until the connection ends.
    pub(super) async fn run(&mut self, until_ready: bool) -> Result<(), Lost> {
        poll_fn(|context| {
            loop {
                if until_ready && self.received.ready.is_some() {
                    return Poll::Ready(Ok(()));
                }
                let written = match self.poll_write(context) {
                    Ok(written) => written,
                    // The bytes that the broker sent before it closed the connection explain more, so they are read first.
                    Err(error) => {
                        tracing::debug!(%error, "the connection takes nothing any more");
                        self.broken = Some(Broken {
                            error,
                            last_words: Box::pin(sleep(LAST_WORDS)),
                        });
                        true
                    }
                };
                if !self.more {
                    self.more = self.poll_read(context)?;
                }
                if self.more {
                    self.handle()?;
                    if !until_ready {
                        self.deliver();
                    } else if self.received.ready.is_some() {
                        // A task woken by a response finds the connection in its new state.
                        continue;
                    }
                    // The woken tasks send again before the remaining packets are handled, so that the broker has work
                    // meanwhile. They also run before the next write, so that acknowledgements and requests leave together. The
                    // first poll of `yield_now` always returns `Pending`.
                    let _ = pin!(yield_now()).poll(context);
                    return Poll::Pending;
                }
                // Sleeping is safe only after the transport reported that it has nothing to read.
                if written {
                    continue;
                }
                if let Some(broken) = &mut self.broken
                    && broken.last_words.as_mut().poll(context).is_ready()
                {
                    let error = io::Error::new(broken.error.kind(), broken.error.to_string());
                    return Poll::Ready(Err(Lost::Io(error)));
                }
                let is_idle = self.output.is_empty() && self.broken.is_none();
                match self.ticker.poll(self.shared, is_idle, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(lost)) => return Poll::Ready(Err(lost)),
                }
            }
        })
        .await
    }

    /// Reads once. Returns whether bytes arrived.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        match self.input.poll_read(&mut self.io, context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(Lost::Ended),
            Poll::Ready(Ok(_)) => Ok(true),
            // TLS without a close_notify alert.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Lost::Ended)
            }
            Poll::Ready(Err(error)) => Err(Lost::Io(error)),
        }
    }

    /// Handles at most [`BUDGET`] packets of the input.
    fn handle(&mut self) -> Result<(), Lost> {
        let now_ms = self.shared.now_ms();
        if self.first.is_empty() {
            let bytes = self.input.bytes();
            let count = bytes.len().min(ForeignProtocol::BYTES);
            self.first.extend_from_slice(&bytes[..count]);
        }
        let (result, is_ready) = {
            let mut core = self.shared.core();
            if core.closing {
                return Err(Lost::Closing);
            }
            let received = &mut self.received;
            let more = core
                .exchange
                .receive(self.input.bytes(), now_ms, BUDGET, received);
            self.input
                .set_max_packet_bytes(core.exchange.session().max_packet_bytes());
            // Time advances even if the broker sends without a pause.
            let advanced = core.exchange.advance(now_ms, &mut received.wakers);
            let result = more.and_then(|more| advanced.map(|()| more));
            (result, core.exchange.session().is_ready())
        };
        self.received.wakers.drain(..).for_each(Waker::wake);
        self.more = result.map_err(|error| match error {
            SessionError::Decode(_) if !is_ready => {
                Lost::NotMqtt(ForeignProtocol::of(&self.first), error)
            }
            error => Lost::Session(error),
        })?;
        Ok(())
    }

    /// Delivers messages that are not responses.
    pub(super) fn deliver(&mut self) {
        if self.received.messages.is_empty() {
            return;
        }
        if self.client_id.is_empty() {
            let core = self.shared.core();
            self.client_id.push_str(core.exchange.session().client_id());
        }
        for message in self.received.messages.drain(..) {
            self.shared.notified(&message, &self.client_id);
        }
    }

    /// Takes output from the session and writes it. Returns whether the transport accepted all of it.
    fn poll_write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.broken.is_some() {
            return Ok(false);
        }
        if self.output.is_empty() {
            self.turn_over();
        }
        let progress = self.output.poll_write(&mut self.io, context)?;
        if progress == Progress::Blocked {
            self.turn_over();
            self.output.blocked();
        }
        Ok(progress == Progress::Everything)
    }

    /// Reports the written bytes to the session, and takes further output once everything is written.
    fn turn_over(&mut self) {
        let now_ms = self.shared.now_ms();
        let mut core = self.shared.core();
        if self.output.report(core.exchange.session_mut(), now_ms) {
            core.exchange.written(now_ms, &mut self.received.wakers);
        }
        if core.exchange.has_output() {
            self.output.refill(core.exchange.session_mut(), now_ms);
        }
        drop(core);
        self.received.wakers.drain(..).for_each(Waker::wake);
    }

    /// Ends the connection for the session, and sends the broker a DISCONNECT with the reason if possible.
    pub(super) async fn end(&mut self, lost: &Lost) {
        let (reason, session_expiry_s) = match lost {
            // A session that no client resumes need not be kept.
            Lost::Closing => (
                Some(ReasonCode::SUCCESS),
                self.shared.settings.has_own_session().then_some(0),
            ),
            Lost::Session(error) => (error.reason(), None),
            Lost::TimedOut => (Some(ReasonCode::SUCCESS), None),
            Lost::Transport(_) | Lost::Ended | Lost::Io(_) | Lost::NotMqtt(..) => (None, None),
        };
        let mut rest = BytesMut::from(self.output.bytes());
        {
            let now_ms = self.shared.now_ms();
            let mut core = self.shared.core();
            let session = core.exchange.session_mut();
            self.output.report(session, now_ms);
            if let Some(reason) = reason {
                // The remaining bytes may still arrive.
                session.written(rest.len(), false, now_ms);
                if let Lost::Closing = lost {
                    // Contains no new requests, since those were withdrawn.
                    rest.extend_from_slice(&session.take_output(now_ms));
                }
                rest.extend_from_slice(&session.disconnect(reason, session_expiry_s));
            }
            core.exchange.connection_lost();
        }
        if reason.is_none() {
            return;
        }
        let io = &mut self.io;
        let goodbye = timeout(GOODBYE, async {
            io.write_all(&rest).await?;
            io.shutdown().await
        });
        // If the broker does not receive the DISCONNECT, it still sees the end of the stream.
        if let Lost::Closing = lost {
            let _ = goodbye.await;
        } else {
            // Deadlines of requests keep running meanwhile.
            let _ = self.ticker.meanwhile(self.shared, goodbye).await;
        }
    }
}
