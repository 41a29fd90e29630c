//! The client.
use crate::convert::{StateOutput, number};
use crate::election::NativeElection;
use crate::event_loop_waker::EventLoopWaker;
use crate::event_stream::NativeEventStream;
use crate::failure::throw;
use crate::lease::NativeLease;
use crate::operation_table::{BeginResult, OperationTable};
use crate::options::{
    self, DelInput, LockInput, ObserveMatchingInput, SetInput, TransactInput, UpdateInput,
};
use crate::reply::{Reply, TypedStream};
use crate::result_batch;
use crate::scan::{NativeScan, TypedScan};
use crate::settings::SettingsInput;
use bytes::Bytes;
use napi::bindgen_prelude::{Array, Either, Function, Uint8Array};
use napi::{CleanupEnvHook, Env, Result};
use napi_derive::napi;
use statestore::Transaction;
use statestore_embed::{Client, Error, OperationDescriptor};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A client of one environment.
#[napi]
pub struct NativeClient {
    pub(crate) operations: Rc<OperationTable>,
    /// Present until the client was let go of.
    at_exit: RefCell<Option<CleanupEnvHook<Weak<OperationTable>>>>,
}

/// An operation of a transaction: a SET if it has a value, otherwise a DEL.
#[napi(object, object_to_js = false)]
pub struct OperationInput {
    pub key: Uint8Array,
    pub value: Option<Uint8Array>,
    pub set: Option<SetInput>,
    pub del: Option<DelInput>,
}

impl OperationInput {
    fn add_to(self, transaction: Transaction) -> std::result::Result<Transaction, Error> {
        Ok(match self.value {
            Some(value) => transaction.set(&self.key, value, &options::set(self.set)?),
            None => transaction.del(&self.key, &options::del(self.del)?),
        })
    }
}

/// Counters of a client; see `statestore::Counters`.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct CountersOutput {
    pub sent: f64,
    pub completed: f64,
    pub timed_out: f64,
    pub failed: f64,
    pub superseded: f64,
    pub resent: f64,
    pub reconnects: f64,
    pub reauthentications: f64,
    pub sessions_lost: f64,
    pub protocol_errors: f64,
    pub unmatched_responses: f64,
    pub clock_skews: f64,
    pub notifications: f64,
    pub stale_notifications: f64,
    pub malformed_messages: f64,
    pub in_flight: f64,
    pub queued: f64,
}

#[napi]
impl NativeClient {
    /// Creates a client that is not connected yet. `ring` is called when there are results to [drain](Self::drain).
    #[napi(constructor)]
    pub fn new(env: &Env, settings: SettingsInput, ring: Function<'_, (), ()>) -> Result<Self> {
        let settings = settings.build().map_err(|error| throw(env, error))?;
        let client = Client::new(settings).map_err(|error| throw(env, error))?;
        let operations = OperationTable::new(client, EventLoopWaker::new(&ring)?);
        // The environment may end with operations under way. The value of a removed hook is never freed, so
        // it must not keep the client.
        let at_exit = env.add_env_cleanup_hook(Rc::downgrade(&operations), |operations| {
            if let Some(operations) = operations.upgrade() {
                operations.close();
            }
        })?;
        Ok(Self {
            operations,
            at_exit: RefCell::new(Some(at_exit)),
        })
    }

    #[napi]
    pub fn drain<'env>(&self, env: &'env Env) -> Result<Array<'env>> {
        result_batch::drain(env, &self.operations)
    }

    #[napi]
    pub fn cancel(&self, operation: u32) {
        self.operations.cancel(operation);
    }

    #[napi]
    pub fn answer(&self, operation: u32, value: Option<&[u8]>) {
        self.operations
            .send_value(operation, value.map(Bytes::copy_from_slice));
    }

    /// Sets whether this client keeps the process alive.
    #[napi]
    pub fn keep_alive(&self, env: &Env, yes: bool) -> Result<()> {
        self.operations.waker.keep_alive(env, yes)
    }

    /// Begins to connect. Call this once, before any other operation.
    #[napi]
    pub fn connect(&self) -> BeginResult {
        let connect = self.operations.client.connect();
        self.operations.submit("connecting", connect, Reply::Done)
    }

    #[napi]
    pub fn close(&self, timeout: Option<f64>) -> BeginResult {
        let timeout = timeout.map_or(statestore::Client::CLOSE_TIMEOUT, options::time);
        self.operations.close_client(timeout)
    }

    /// Lets go of the event loop; to be called last of all.
    #[napi]
    pub fn release(&self, env: &Env) -> Result<()> {
        self.operations.close();
        match self.at_exit.borrow_mut().take() {
            Some(hook) => env.remove_env_cleanup_hook(hook),
            None => Ok(()),
        }
    }

    #[napi]
    pub fn client_id(&self, env: &Env) -> Result<String> {
        let core = self
            .operations
            .client
            .core()
            .map_err(|error| throw(env, error))?;
        Ok(core.client_id().clone())
    }

    #[napi]
    pub fn counters(&self, env: &Env) -> Result<CountersOutput> {
        let core = self
            .operations
            .client
            .connected_core()
            .map_err(|error| throw(env, error))?;
        let counters = core.counters();
        Ok(CountersOutput {
            sent: number(counters.sent),
            completed: number(counters.completed),
            timed_out: number(counters.timed_out),
            failed: number(counters.failed),
            superseded: number(counters.superseded),
            resent: number(counters.resent),
            reconnects: number(counters.reconnects),
            reauthentications: number(counters.reauthentications),
            sessions_lost: number(counters.sessions_lost),
            protocol_errors: number(counters.protocol_errors),
            unmatched_responses: number(counters.unmatched_responses),
            clock_skews: number(counters.clock_skews),
            notifications: number(counters.notifications),
            stale_notifications: number(counters.stale_notifications),
            malformed_messages: number(counters.malformed_messages),
            in_flight: number(counters.in_flight),
            queued: number(counters.queued),
        })
    }

    /// Returns the present state.
    #[napi]
    pub fn state(&self, env: &Env) -> Result<StateOutput> {
        let core = self
            .operations
            .client
            .connected_core()
            .map_err(|error| throw(env, error))?;
        let state = core.state().borrow().clone();
        Ok(state.into())
    }

    /// Returns the states of the connection, the present one first.
    #[napi]
    pub fn states(&self, env: &Env) -> Result<NativeEventStream> {
        let states = self
            .operations
            .client
            .states()
            .map_err(|error| throw(env, error))?;
        Ok(NativeEventStream::new(
            Rc::clone(&self.operations),
            TypedStream::States(states),
        ))
    }

    #[napi]
    pub fn get(
        &self,
        key: &[u8],
        timeout: Option<f64>,
        remaining: Option<bool>,
        eventual: Option<bool>,
    ) -> BeginResult {
        let remaining = remaining.unwrap_or_default();
        let options = options::get(timeout, remaining, eventual.unwrap_or_default());
        let get = self
            .operations
            .client
            .get(Bytes::copy_from_slice(key), options);
        let reply = if remaining {
            Reply::Remaining
        } else {
            Reply::Entry
        };
        self.operations.submit("getting", get, reply)
    }

    #[napi]
    pub fn get_many(
        &self,
        keys: Vec<Uint8Array>,
        timeout: Option<f64>,
        remaining: Option<bool>,
        eventual: Option<bool>,
    ) -> BeginResult {
        let remaining = remaining.unwrap_or_default();
        let keys = keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
        let options = options::get(timeout, remaining, eventual.unwrap_or_default());
        let get = self.operations.client.get_many(keys, options);
        let reply = if remaining {
            Reply::AllRemaining
        } else {
            Reply::Entries
        };
        self.operations.submit("getting", get, reply)
    }

    #[napi]
    pub fn capabilities(&self) -> BeginResult {
        let capabilities = self.operations.client.capabilities();
        self.operations
            .submit("asking the store", capabilities, Reply::Capabilities)
    }

    #[napi]
    pub fn transact(
        &self,
        operations: Vec<OperationInput>,
        options: Option<TransactInput>,
    ) -> BeginResult {
        let read = operations
            .into_iter()
            .try_fold(Transaction::new(), |all, operation| operation.add_to(all))
            .and_then(|transaction| Ok((transaction, options::transact(options)?)));
        let (transaction, options) = match read {
            Ok(read) => read,
            Err(error) => return Either::B(error.into()),
        };
        let transact = self.operations.client.transact(transaction, options);
        self.operations
            .submit("a transaction", transact, Reply::Transaction)
    }

    /// Begins to set several keys. There must be as many values as keys.
    #[napi]
    pub fn set_many(
        &self,
        keys: Vec<Uint8Array>,
        values: Vec<Uint8Array>,
        options: Option<SetInput>,
    ) -> BeginResult {
        let options = match options::set(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let pairs = keys.iter().zip(&values);
        let pairs = pairs
            .map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
            .collect();
        let set = self.operations.client.set_many(pairs, options);
        self.operations.submit("setting", set, Reply::Sets)
    }

    #[napi]
    pub fn del_many(&self, keys: Vec<Uint8Array>, options: Option<DelInput>) -> BeginResult {
        let options = match options::del(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let keys = keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
        let del = self.operations.client.del_many(keys, options);
        self.operations.submit("deleting", del, Reply::Dels)
    }

    #[napi]
    pub fn set(&self, key: &[u8], value: &[u8], options: Option<SetInput>) -> BeginResult {
        let options = match options::set(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let set = self.operations.client.set(key, value, options);
        self.operations.submit("setting", set, Reply::Set)
    }

    #[napi]
    pub fn del(&self, key: &[u8], options: Option<DelInput>) -> BeginResult {
        let options = match options::del(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let del = self
            .operations
            .client
            .del(Bytes::copy_from_slice(key), options);
        self.operations.submit("deleting", del, Reply::Del)
    }

    #[napi]
    pub fn vdel(&self, key: &[u8], value: &[u8], options: Option<DelInput>) -> BeginResult {
        let options = match options::del(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let vdel = self.operations.client.vdel(key, value, options);
        self.operations.submit("deleting", vdel, Reply::Vdel)
    }

    #[napi]
    pub fn update(&self, key: &[u8], options: Option<UpdateInput>) -> BeginResult {
        let options = options::update(options);
        self.operations
            .update(None, Bytes::copy_from_slice(key), options)
    }

    #[napi]
    pub fn scan(&self, env: &Env, pattern: &[u8], timeout: Option<f64>) -> Result<NativeScan> {
        let options = options::scan(timeout, false);
        let scan = self.operations.client.scan(pattern, options);
        let scan = scan.map_err(|error| throw(env, error))?;
        let operations = Rc::clone(&self.operations);
        Ok(NativeScan::new(operations, TypedScan::Keys(scan)))
    }

    #[napi]
    pub fn scan_entries(
        &self,
        env: &Env,
        pattern: &[u8],
        timeout: Option<f64>,
        fallback: Option<bool>,
    ) -> Result<NativeScan> {
        let options = options::scan(timeout, fallback.unwrap_or_default());
        let scan = self.operations.client.scan_entries(pattern, options);
        let scan = scan.map_err(|error| throw(env, error))?;
        let operations = Rc::clone(&self.operations);
        Ok(NativeScan::new(operations, TypedScan::Entries(scan)))
    }

    /// Keeps up to `kept` observations; only the latest without it.
    #[napi]
    pub fn observe(
        &self,
        key: &[u8],
        kept: Option<u32>,
        timeout: Option<f64>,
        initial: Option<bool>,
    ) -> BeginResult {
        let options = options::observe(kept, timeout, initial.unwrap_or_default());
        let observe = self
            .operations
            .client
            .observe(Bytes::copy_from_slice(key), options);
        self.operations.submit("observing", observe, |stream| {
            Reply::Stream(TypedStream::Observations(stream))
        })
    }

    #[napi]
    pub fn observe_matching(
        &self,
        pattern: &[u8],
        options: Option<ObserveMatchingInput>,
    ) -> BeginResult {
        let options = options::observe_matching(options);
        let pattern = Bytes::copy_from_slice(pattern);
        let observe = self.operations.client.observe_matching(pattern, options);
        self.operations.submit("observing", observe, |stream| {
            Reply::Stream(TypedStream::MatchObservations(stream))
        })
    }

    #[napi]
    pub fn lease(&self, env: &Env, name: &[u8], options: Option<LockInput>) -> Result<NativeLease> {
        let options = options::lock(options);
        let lease = self.operations.client.lease(name, &options.lease);
        let lease = lease.map_err(|error| throw(env, error))?;
        Ok(NativeLease::new(Rc::clone(&self.operations), lease))
    }

    #[napi]
    pub fn lock(&self, name: &[u8], options: Option<LockInput>) -> BeginResult {
        let lock = self
            .operations
            .client
            .lock(Bytes::copy_from_slice(name), options::lock(options));
        self.operations
            .submit(OperationDescriptor::event("locking"), lock, Reply::Guard)
    }

    #[napi]
    pub fn election(
        &self,
        env: &Env,
        name: &[u8],
        options: Option<LockInput>,
    ) -> Result<NativeElection> {
        let election = self
            .operations
            .client
            .election(name, &options::lock(options));
        let election = election.map_err(|error| throw(env, error))?;
        Ok(NativeElection::new(Rc::clone(&self.operations), election))
    }
}
