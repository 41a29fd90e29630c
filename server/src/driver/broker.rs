//! Transfer of bytes between the broker and the hub, with connecting and reconnecting.
use super::{Driver, PoisonGuard};
use crate::attached::{AttachError, Backoff, Connector, Transport};
use bytes::{Buf, Bytes, BytesMut};
use statestore_protocol::mqtt::ReasonCode;
use statestored_broker::hub::Hub;
use statestored_common::ClockReading;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

/// Time limit of connecting, and then of the steps until requests can arrive.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit of the requests that arrived before the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of one read.
const READ_BYTES: usize = 16 * 1024;
/// Time limit of writing the last packets.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to the broker.
struct BrokerConnection<'a, S> {
    driver: &'a Driver,
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    input: BytesMut,
    /// Output taken from the hub and not yet written.
    output: Bytes,
    /// Whether output was written since the last flush.
    is_unflushed: bool,
    /// Whether the hub has more to do with the input that it has.
    has_more: bool,
}

impl Driver {
    /// Stays attached to the broker until the server stops.
    pub(crate) async fn attach(self: Rc<Self>, mut connector: impl Connector) {
        let _fuse = PoisonGuard(&self);
        let mut backoff = Backoff::default();
        while !self.is_stopping.get() && !self.is_poisoned.get() {
            let Some(failure) = self.attach_once(&mut connector).await else {
                return;
            };
            if self.was_attached.take() {
                backoff = Backoff::default();
            }
            tracing::warn!(broker = %connector.broker(), %failure, "not attached to the broker");
            let mut random = [0; 4];
            // Without the random part, all servers of a broker would reconnect at once.
            let _ = getrandom::fill(&mut random);
            let until = Instant::now() + backoff.next(u32::from_ne_bytes(random));
            while !self.is_stopping.get() && Instant::now() < until {
                tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.broker_wake.notified() => {}
                }
            }
        }
    }

    /// Connects, and serves the connection until it ends. Returns why it ended, or `None` if the server stops.
    async fn attach_once(&self, connector: &mut impl Connector) -> Option<AttachError> {
        let transport = {
            let connecting = timeout(CONNECT_TIMEOUT, connector.connect());
            let mut connecting = pin!(connecting);
            loop {
                tokio::select! {
                    connected = &mut connecting => break connected,
                    () = self.broker_wake.notified() => {
                        if self.is_stopping.get() {
                            return None;
                        }
                    }
                }
            }
        };
        let transport = match transport {
            Ok(Ok(transport)) => transport,
            Ok(Err(error)) => return Some(error),
            Err(_) => return Some(connector.stall_reason().unwrap_or(AttachError::Timeout)),
        };
        let Transport {
            stream,
            user,
            password,
            identity_key,
        } = transport;
        let (reader, writer) = split(stream);
        let mut link = BrokerConnection {
            driver: self,
            reader,
            writer,
            input: BytesMut::new(),
            output: Bytes::new(),
            is_unflushed: false,
            has_more: false,
        };
        let connected = {
            let mut hub = self.hub.borrow_mut();
            let now = self.clock.now();
            hub.broker_connected(user, password, identity_key, now)
        };
        let ended = match connected {
            Ok(()) => link.serve().await.err(),
            Err(error) => Some(error.into()),
        };
        link.end(ended.as_ref()).await;
        self.wake_tasks(None);
        ended
    }

    /// Unsubscribes from further requests, and gives those that have arrived time to finish.
    pub(crate) async fn leave_broker(&self) {
        let now = self.clock.now();
        self.hub.borrow_mut().leave_broker(now);
        self.broker_wake.notify_one();
        let left = async {
            while !self.hub.borrow().has_left_broker() {
                self.broker_polled.notified().await;
            }
        };
        if timeout(DRAIN_TIMEOUT, left).await.is_err() {
            tracing::warn!("requests from the broker were not executed before the server stopped");
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> BrokerConnection<'_, S> {
    /// Moves bytes until the connection ends or the server stops.
    async fn serve(&mut self) -> Result<(), AttachError> {
        let late = Instant::now() + CONNECT_TIMEOUT;
        while !self.driver.is_stopping.get() {
            if self.driver.is_poisoned.get() {
                return std::future::pending().await;
            }
            let is_attached = self.poll_hub()?;
            if is_attached {
                self.driver.was_attached.set(true);
            } else if Instant::now() >= late {
                return Err(AttachError::Timeout);
            }
            let wakeup_ms = self.driver.hub.borrow().broker_wakeup();
            let wakeup = wakeup_ms.map(|at_ms| self.driver.clock.instant(at_ms));
            let late = (!is_attached).then_some(late);
            let wakeup = [wakeup, late].into_iter().flatten().min();
            self.input.reserve(READ_BYTES);
            let has_output = !self.output.is_empty() || self.is_unflushed;
            tokio::select! {
                read = self.reader.read_buf(&mut self.input) => {
                    let count = read?;
                    if count == 0 {
                        return Err(AttachError::ConnectionClosed);
                    }
                    self.driver.record_input(count, self.driver.clock.now());
                    self.has_more = true;
                }
                written = write(&mut self.writer, &self.output), if has_output => {
                    let count = written?;
                    self.output.advance(count);
                    self.is_unflushed = count > 0;
                    let now = self.driver.clock.now();
                    let waited = !self.output.is_empty();
                    self.driver.hub.borrow_mut().broker_written(count, waited, now);
                }
                () = self.driver.broker_wake.notified() => {}
                () = sleep_until_option(wakeup) => {}
                () = yield_now(), if self.has_more => {}
            }
        }
        Ok(())
    }

    /// Lets the hub process its input. Returns whether requests can arrive.
    fn poll_hub(&mut self) -> Result<bool, AttachError> {
        let driver = self.driver;
        let (now, begun_us) = driver.clock.now_with_micros();
        let mut hub = driver.hub.borrow_mut();
        driver.begin_quantum(&mut hub, begun_us);
        let result = self.process_input(&mut hub, now);
        driver.record_work(&mut hub);
        let is_attached = hub.is_attached();
        drop(hub);
        driver.wake_tasks(None);
        driver.broker_polled.notify_one();
        result.map(|()| is_attached)
    }

    fn process_input(&mut self, hub: &mut Hub, now: ClockReading) -> Result<(), AttachError> {
        let has_packets = self.has_more && hub.broker_received(&mut self.input, now)?;
        self.has_more = hub.poll_broker(now)? || has_packets;
        if self.output.is_empty() {
            self.output = hub.broker_output(now);
        }
        Ok(())
    }

    /// Ends the connection, and notifies the broker if the connection still works.
    async fn end(mut self, failure: Option<&AttachError>) {
        let reason = match failure {
            None | Some(AttachError::Timeout) => Some(ReasonCode::SUCCESS),
            Some(AttachError::Session(error)) => error.reason(),
            Some(_) => None,
        };
        let rest = {
            let mut hub = self.driver.hub.borrow_mut();
            let now = self.driver.clock.now();
            let mut rest = BytesMut::from(&self.output[..]);
            if failure.is_none() {
                hub.broker_written(self.output.len(), false, now);
                rest.extend_from_slice(&hub.broker_last_output(now));
            }
            rest.extend_from_slice(&hub.broker_disconnected(reason, now));
            rest
        };
        self.driver.broker_polled.notify_one();
        if reason.is_some() {
            let goodbye = timeout(DISCONNECT_TIMEOUT, async {
                self.writer.write_all(&rest).await?;
                self.writer.shutdown().await
            });
            // If the broker does not read it, the end of the stream shows the same.
            let _ = goodbye.await;
        }
    }
}

/// Writes a part of the output and returns its size, or flushes if there is none.
async fn write(writer: &mut (impl AsyncWrite + Unpin), output: &[u8]) -> io::Result<usize> {
    if output.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    match writer.write(output).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

/// Sleeps until `instant`, or forever.
async fn sleep_until_option(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
