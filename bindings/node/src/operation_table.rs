//! The operations of one client that JavaScript waits for.
use crate::event_loop_waker::EventLoopWaker;
use crate::failure::Failure;
use crate::reply::Reply;
use bytes::Bytes;
use napi::bindgen_prelude::Either;
use slab::Slab;
use statestore::{Entry, UpdateOutcome};
use statestore_embed::{Client, Error, Guard, Mailbox, Operation, OperationDescriptor};
use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The number of an operation that has begun, or why it could not begin.
pub(crate) type BeginResult = Either<u32, Failure>;
/// Channel for the answer to the question of an update.
type ValueSender = oneshot::Sender<Option<Bytes>>;
type UpdateFuture = Pin<Box<dyn Future<Output = Result<UpdateOutcome, Error>> + Send>>;

/// A message that the runtime posts.
pub(crate) struct MailboxItem {
    operation: usize,
    event: OperationEvent,
    /// The channel for the answer, if the event is a question.
    value_sender: Option<ValueSender>,
}

/// An event of an operation.
pub(crate) enum OperationEvent {
    Done(Result<Reply, Error>),
    /// An update asks for the new value.
    ValueRequest(Option<Entry>),
}

/// Where operations begin and their results are fetched, both on the thread of the event loop.
pub(crate) struct OperationTable {
    pub(crate) client: Client,
    pub(crate) waker: Arc<EventLoopWaker>,
    mailbox: Arc<Mailbox<MailboxItem>>,
    operations: RefCell<Slab<Operation>>,
    value_requests: RefCell<HashMap<usize, ValueSender>>,
}

impl OperationTable {
    pub(crate) fn new(client: Client, waker: EventLoopWaker) -> Rc<Self> {
        let waker = Arc::new(waker);
        let mailbox_waker = Arc::clone(&waker);
        Rc::new(Self {
            client,
            waker,
            mailbox: Mailbox::new(move || mailbox_waker.wake()),
            operations: RefCell::default(),
            value_requests: RefCell::default(),
        })
    }

    /// Begins an operation. `reply` converts its result.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        action: impl Into<OperationDescriptor>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> BeginResult {
        self.begin(action, |_| future, reply)
    }

    /// Submits an operation without the limit on operations under way, such as a release.
    pub(crate) fn submit_return<T: Send + 'static>(
        &self,
        action: impl Into<OperationDescriptor>,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> BeginResult {
        self.register(|operation| {
            let complete = completion(operation, reply);
            self.client
                .submit_return(action, future, &self.mailbox, complete)
        })
    }

    /// Begins an update by the client, or by a guard. Each time that it asks for the new value, the face gets a question, and
    /// [answers](Self::send_value).
    pub(crate) fn update(
        &self,
        guard: Option<&Guard>,
        key: Bytes,
        options: statestore::UpdateOptions,
    ) -> BeginResult {
        let mailbox = Arc::clone(&self.mailbox);
        let update = |operation| -> UpdateFuture {
            let change = move |old| {
                let (sender, receiver) = oneshot::channel();
                // A mailbox that was closed drops the question, which leaves the key as it is.
                let _ = mailbox.post(MailboxItem {
                    operation,
                    event: OperationEvent::ValueRequest(old),
                    value_sender: Some(sender),
                });
                async move { receiver.await.unwrap_or_default() }
            };
            match guard {
                Some(guard) => Box::pin(guard.update(key, options, change)),
                None => Box::pin(self.client.update(key, options, change)),
            }
        };
        self.begin("updating", update, Reply::Update)
    }

    /// Begins to finish the calls under way, for `timeout` at most, and to close the client.
    pub(crate) fn close_client(&self, timeout: Duration) -> BeginResult {
        self.register(|operation| {
            self.client
                .submit_close(timeout, &self.mailbox, completion(operation, Reply::Done))
        })
    }

    fn begin<T, F>(
        &self,
        action: impl Into<OperationDescriptor>,
        future: impl FnOnce(usize) -> F,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> BeginResult
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.register(|operation| {
            let complete = completion(operation, reply);
            self.client
                .submit(action, future(operation), &self.mailbox, complete)
        })
    }

    /// Assigns a number to an operation.
    fn register(&self, submit: impl FnOnce(usize) -> Result<Operation, Error>) -> BeginResult {
        let mut operations = self.operations.borrow_mut();
        let place = operations.vacant_entry();
        let operation = place.key();
        match submit(operation) {
            Ok(begun) => {
                place.insert(begun);
                // A client has at most 2^18 operations, and one more for each thing that it has.
                Either::A(u32::try_from(operation).unwrap_or(u32::MAX))
            }
            Err(error) => Either::B(error.into()),
        }
    }

    /// Cancels an operation. It still ends, with its own result or with `Cancelled`.
    pub(crate) fn cancel(&self, operation: u32) {
        if let Some(operation) = self.operations.borrow().get(operation as usize) {
            // In a forked process there is nothing to cancel.
            let _ = operation.cancel();
        }
    }

    /// Answers the question of an update: the new value, or none to leave the key as it is.
    pub(crate) fn send_value(&self, operation: u32, value: Option<Bytes>) {
        let answer = self
            .value_requests
            .borrow_mut()
            .remove(&(operation as usize));
        if let Some(answer) = answer {
            // The update may have ended meanwhile.
            let _ = answer.send(value);
        }
    }

    /// Passes up to `max` events that have arrived to `take`, with the numbers of their operations; returns whether more are left.
    pub(crate) fn take_events(
        &self,
        max: usize,
        mut take: impl FnMut(u32, OperationEvent),
    ) -> bool {
        self.mailbox.drain(max, |item| {
            let MailboxItem {
                operation,
                event,
                value_sender,
            } = item;
            if let Some(sender) = value_sender {
                self.value_requests.borrow_mut().insert(operation, sender);
            } else {
                // The operation has ended, and with it its unanswered question.
                let ended = self.operations.borrow_mut().try_remove(operation);
                let question = self.value_requests.borrow_mut().remove(&operation);
                drop((ended, question));
            }
            take(u32::try_from(operation).unwrap_or(u32::MAX), event);
        })
    }

    /// Drops further results, and lets the process end.
    pub(crate) fn close(&self) {
        self.mailbox.close();
        self.waker.close();
    }
}

/// Converts the result of an operation to an item.
fn completion<T>(
    operation: usize,
    reply: impl FnOnce(T) -> Reply + Send + 'static,
) -> impl FnOnce(Result<T, Error>) -> MailboxItem + Send + 'static {
    move |result| MailboxItem {
        operation,
        event: OperationEvent::Done(result.map(reply)),
        value_sender: None,
    }
}
