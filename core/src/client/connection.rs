//! One connection: bytes between the session and its transport.
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

/// How long a last DISCONNECT may take to be written.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long a transport that takes nothing any more may still bring something.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Packets handled at a time: few enough that with some dozens of requests in flight the broker has new ones before all of its
/// responses are handled, so that both work at the same time.
const BUDGET: usize = 64;

/// The transport takes nothing any more.
#[derive(Debug)]
struct Broken {
    error: io::Error,
    last_words: Pin<Box<Sleep>>,
}

/// One transport with the bytes on their way.
#[derive(Debug)]
pub(super) struct Connection<'a, S> {
    shared: &'a Shared,
    ticker: &'a mut Ticker,
    pub(super) io: S,
    input: Input,
    /// There may be whole packets in `input`.
    more: bool,
    output: Output,
    broken: Option<Broken>,
    received: Received,
    /// The first bytes of the server.
    first: Vec<u8>,
    /// Under which notifications come; empty until the first one does.
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

    /// Moves bytes until the session is ready, if `until_ready`, or else until the connection is over.
    pub(super) async fn run(&mut self, until_ready: bool) -> Result<(), Lost> {
        poll_fn(|context| {
            loop {
                if until_ready && self.received.ready.is_some() {
                    return Poll::Ready(Ok(()));
                }
                let written = match self.poll_write(context) {
                    Ok(written) => written,
                    // What the broker said before it closed the connection tells more: it is read first.
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
                        // Who was woken by a response finds the connection in its new state.
                        continue;
                    }
                    // The tasks that were woken send again before the rest is handled, so that the broker has work
                    // meanwhile, and before anything is written, so that acknowledgements and requests go together.
                    // To yield is never done at the first poll.
                    let _ = pin!(yield_now()).poll(context);
                    return Poll::Pending;
                }
                // Sleeping is safe only after the transport said that it has nothing to read.
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

    /// Reads once; whether something came.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        match self.input.poll_read(&mut self.io, context) {
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

    /// Handles some of what was read.
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
            // A broker that never stops sending does not stop the time.
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

    /// Hands messages over that are not responses.
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

    /// Takes what is to be written and writes as much of it as the transport takes; whether it took all.
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

    /// Tells the session what was written, and takes more from it once that is all.
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

    /// Ends the connection for the session, and tells the broker that and why, as far as that is possible.
    pub(super) async fn end(&mut self, lost: &Lost) {
        let (reason, session_expiry_s) = match lost {
            // A session that nobody continues need not be kept.
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
                // Whatever becomes of it, it may arrive.
                session.written(rest.len(), false, now_ms);
                if let Lost::Closing = lost {
                    // No new requests: those were withdrawn.
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
        // A broker that does not take it learns it from the end of the stream.
        if let Lost::Closing = lost {
            let _ = goodbye.await;
        } else {
            // The time of requests goes on meanwhile.
            let _ = self.ticker.meanwhile(self.shared, goodbye).await;
        }
    }
}
