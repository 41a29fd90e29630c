//! One connection: bytes between the session and its transport.
use super::input::Input;
use super::lost::Lost;
use super::shared::Shared;
use super::ticker::Ticker;
use crate::mqtt::ReasonCode;
use crate::request::Received;
use crate::settings::Credentials;
use bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::timeout;

/// How long a last DISCONNECT may take to be written.
const GOODBYE: Duration = Duration::from_secs(1);
/// Packets handled at a time.
const BUDGET: usize = 128;

/// One transport with the bytes on their way.
#[derive(Debug)]
pub(super) struct Connection<'a, S> {
    shared: &'a Shared,
    ticker: &'a mut Ticker,
    pub(super) io: S,
    input: Input,
    /// There may be whole packets in `input`.
    more: bool,
    output: Bytes,
    /// How many bytes the transport took that the session does not know of yet.
    unreported: usize,
    /// The transport did not take all of `output` at once.
    is_blocked: bool,
    /// The transport may hold back what it took.
    unflushed: bool,
    /// The transport takes nothing any more.
    broken: bool,
    received: Received,
    /// Under which notifications come; empty until the first one does.
    client_id: String,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(shared: &'a Shared, ticker: &'a mut Ticker, io: S) -> Self {
        Self {
            shared,
            ticker,
            io,
            input: Input::new(shared.settings.max_packet_bytes),
            more: false,
            output: Bytes::new(),
            unreported: 0,
            is_blocked: false,
            unflushed: false,
            broken: false,
            received: Received::default(),
            client_id: String::new(),
        }
    }

    pub(super) fn start(&mut self, credentials: Credentials) -> Result<(), Lost> {
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
    pub(super) async fn run(&mut self, until_ready: bool) -> Result<(), Lost> {
        poll_fn(|context| {
            loop {
                if until_ready && self.received.ready.is_some() {
                    return Poll::Ready(Ok(()));
                }
                let written = match self.poll_write(context) {
                    Ok(written) => written,
                    // What the broker said before it closed the connection tells more: all of it is read first.
                    Err(error) => {
                        tracing::debug!(%error, "the connection takes nothing any more");
                        self.broken = true;
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
                let is_idle = self.output.is_empty() && !self.broken;
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
        let result = {
            let mut core = self.shared.core();
            if core.closing {
                return Err(Lost::Closing);
            }
            let received = &mut self.received;
            let more = core
                .exchange
                .receive(self.input.bytes(), now_ms, BUDGET, received);
            // A broker that never stops sending does not stop the time.
            let advanced = core.exchange.advance(now_ms, &mut received.wakers);
            more.and_then(|more| advanced.map(|()| more))
        };
        self.received.wakers.drain(..).for_each(Waker::wake);
        self.more = result.map_err(Lost::Session)?;
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
        if self.broken {
            return Ok(false);
        }
        if self.output.is_empty() {
            let now_ms = self.shared.now_ms();
            let mut core = self.shared.core();
            let session = core.exchange.session_mut();
            session.written(
                std::mem::take(&mut self.unreported),
                self.is_blocked,
                now_ms,
            );
            self.is_blocked = false;
            self.output = session.take_output(now_ms);
        }
        let mut written = false;
        while !self.output.is_empty() {
            match Pin::new(&mut self.io).poll_write(context, &self.output) {
                Poll::Pending => {
                    self.report_written();
                    self.is_blocked = true;
                    return Ok(false);
                }
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.output.advance(count);
                    self.unreported += count;
                    self.unflushed = true;
                    written = true;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.io).poll_flush(context) {
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Pending => {}
            }
        }
        Ok(written)
    }

    /// Tells the session what the transport took.
    fn report_written(&mut self) {
        if self.unreported > 0 {
            let now_ms = self.shared.now_ms();
            let mut core = self.shared.core();
            let session = core.exchange.session_mut();
            session.written(
                std::mem::take(&mut self.unreported),
                self.is_blocked,
                now_ms,
            );
        }
    }

    /// Tells the broker that and why the connection ends, as far as that is possible.
    pub(super) async fn say_goodbye(&mut self, lost: &Lost) {
        let (reason, session_expiry_s) = match lost {
            // A session that nobody continues need not be kept.
            Lost::Closing => (
                Some(ReasonCode::SUCCESS),
                self.shared.settings.has_own_session().then_some(0),
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
