//! A connection, which moves bytes between the session and its transport.
use super::connection_error::ConnectionError;
use super::deadline_timer::DeadlineTimer;
use super::foreign_protocol::ForeignProtocol;
use super::input::Input;
use super::output::{Output, WriteProgress};
use super::shared::Shared;
use crate::request::ReceivedBatch;
use crate::transport::Credentials;
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
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which a transport that accepts no more bytes is still read.
const READ_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Maximum number of packets handled at a time. With dozens of requests in flight, the broker receives new requests before the
/// client has handled all responses, so that both work in parallel.
const PACKET_BUDGET: usize = 64;

/// State of a transport that accepts no more bytes.
#[derive(Debug)]
struct WriteFailure {
    error: io::Error,
    read_deadline: Pin<Box<Sleep>>,
}

/// A transport with its buffered input and output.
#[derive(Debug)]
pub(super) struct Connection<'a, S> {
    shared: &'a Shared,
    timer: &'a mut DeadlineTimer,
    pub(super) io: S,
    input: Input,
    /// Whether `input` may hold complete packets.
    has_more_packets: bool,
    output: Output,
    write_failure: Option<WriteFailure>,
    received: ReceivedBatch,
    /// First bytes received from the server.
    first_bytes: Vec<u8>,
    /// Client id of the notification topics; empty until the first message arrives.
    client_id: String,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(shared: &'a Shared, timer: &'a mut DeadlineTimer, io: S) -> Self {
        Self {
            shared,
            timer,
            io,
            input: Input::new(),
            has_more_packets: false,
            output: Output::default(),
            write_failure: None,
            received: ReceivedBatch::default(),
            first_bytes: Vec::new(),
            client_id: String::new(),
        }
    }

    pub(super) fn start(&mut self, credentials: Credentials) -> Result<(), ConnectionError> {
        let now_ms = self.shared.now_ms();
        let mut core = self.shared.lock_state();
        core.exchange.session_mut().set_credentials(
            credentials.user_name,
            credentials.password,
            credentials.authentication,
        );
        let connecting = core.exchange.connect(now_ms);
        self.input
            .set_max_packet_bytes(core.exchange.session().max_packet_bytes());
        connecting.map_err(ConnectionError::Session)
    }

    /// Moves bytes until the session is ready, if `until_ready`, or else until the connection ends.
    pub(super) async fn run(&mut self, until_ready: bool) -> Result<(), ConnectionError> {
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
                        self.write_failure = Some(WriteFailure {
                            error,
                            read_deadline: Box::pin(sleep(READ_AFTER_FAILURE)),
                        });
                        true
                    }
                };
                if !self.has_more_packets {
                    self.has_more_packets = self.poll_read(context)?;
                }
                if self.has_more_packets {
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
                if let Some(broken) = &mut self.write_failure
                    && broken.read_deadline.as_mut().poll(context).is_ready()
                {
                    let error = io::Error::new(broken.error.kind(), broken.error.to_string());
                    return Poll::Ready(Err(ConnectionError::Io(error)));
                }
                let is_idle = self.output.is_empty() && self.write_failure.is_none();
                match self.timer.poll(self.shared, is_idle, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(lost)) => return Poll::Ready(Err(lost)),
                }
            }
        })
        .await
    }

    /// Reads once. Returns whether bytes arrived.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionError> {
        match self.input.poll_read(&mut self.io, context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(ConnectionError::ClosedByBroker),
            Poll::Ready(Ok(_)) => Ok(true),
            // TLS without a close_notify alert.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(ConnectionError::ClosedByBroker)
            }
            Poll::Ready(Err(error)) => Err(ConnectionError::Io(error)),
        }
    }

    /// Handles at most [`PACKET_BUDGET`] packets of the input.
    fn handle(&mut self) -> Result<(), ConnectionError> {
        let now_ms = self.shared.now_ms();
        if self.first_bytes.is_empty() {
            let bytes = self.input.bytes();
            let count = bytes.len().min(ForeignProtocol::BYTES);
            self.first_bytes.extend_from_slice(&bytes[..count]);
        }
        let (result, is_ready) = {
            let mut core = self.shared.lock_state();
            if core.closing {
                return Err(ConnectionError::Closing);
            }
            let received = &mut self.received;
            let more = core
                .exchange
                .receive(self.input.bytes(), now_ms, PACKET_BUDGET, received);
            self.input
                .set_max_packet_bytes(core.exchange.session().max_packet_bytes());
            // Time advances even if the broker sends without a pause.
            let advanced = core.exchange.advance(now_ms, &mut received.wakers);
            let result = more.and_then(|more| advanced.map(|()| more));
            (result, core.exchange.session().is_ready())
        };
        self.received.wakers.drain(..).for_each(Waker::wake);
        self.has_more_packets = result.map_err(|error| match error {
            SessionError::Decode(_) if !is_ready => {
                ConnectionError::NotMqtt(ForeignProtocol::detect(&self.first_bytes), error)
            }
            error => ConnectionError::Session(error),
        })?;
        Ok(())
    }

    /// Delivers messages that are not responses.
    pub(super) fn deliver(&mut self) {
        if self.received.messages.is_empty() {
            return;
        }
        if self.client_id.is_empty() {
            let core = self.shared.lock_state();
            self.client_id.push_str(core.exchange.session().client_id());
        }
        for message in self.received.messages.drain(..) {
            self.shared.handle_notification(&message, &self.client_id);
        }
    }

    /// Takes output from the session and writes it. Returns whether the transport accepted all of it.
    fn poll_write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.write_failure.is_some() {
            return Ok(false);
        }
        if self.output.is_empty() {
            self.refill_output();
        }
        let progress = self.output.poll_write(&mut self.io, context)?;
        if progress == WriteProgress::Blocked {
            self.refill_output();
            self.output.blocked();
        }
        Ok(progress == WriteProgress::Complete)
    }

    /// Reports the written bytes to the session, and takes further output once everything is written.
    fn refill_output(&mut self) {
        let now_ms = self.shared.now_ms();
        let mut core = self.shared.lock_state();
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
    pub(super) async fn disconnect(&mut self, lost: &ConnectionError) {
        let (reason, session_expiry_s) = match lost {
            // A session that no client resumes need not be kept.
            ConnectionError::Closing => (
                Some(ReasonCode::SUCCESS),
                self.shared.settings.has_own_session().then_some(0),
            ),
            ConnectionError::Session(error) => (error.reason(), None),
            ConnectionError::TimedOut => (Some(ReasonCode::SUCCESS), None),
            ConnectionError::Transport(_)
            | ConnectionError::ClosedByBroker
            | ConnectionError::Io(_)
            | ConnectionError::NotMqtt(..) => (None, None),
        };
        let mut rest = BytesMut::from(self.output.bytes());
        {
            let now_ms = self.shared.now_ms();
            let mut core = self.shared.lock_state();
            let session = core.exchange.session_mut();
            self.output.report(session, now_ms);
            if let Some(reason) = reason {
                // The remaining bytes may still arrive.
                session.written(rest.len(), false, now_ms);
                if let ConnectionError::Closing = lost {
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
        let farewell = timeout(DISCONNECT_TIMEOUT, async {
            io.write_all(&rest).await?;
            io.shutdown().await
        });
        // If the broker does not receive the DISCONNECT, it still sees the end of the stream.
        if let ConnectionError::Closing = lost {
            let _ = farewell.await;
        } else {
            // Deadlines of requests keep running meanwhile.
            let _ = self.timer.run_while_offline(self.shared, farewell).await;
        }
    }
}
