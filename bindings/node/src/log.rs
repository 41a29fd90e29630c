//! Log records of the library, for a function of JavaScript.
use crate::event_loop_waker::EventLoopWaker;
use napi::bindgen_prelude::Function;
use napi::{Env, Result};
use napi_derive::napi;
use statestore_embed::Mailbox;
use statestore_embed::log::{self, Level, Record};
use std::sync::Arc;

/// A log record.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct RecordOutput {
    pub level: &'static str,
    pub target: &'static str,
    pub message: String,
}

/// Records that wait for the environment which asked for them.
#[napi]
pub struct NativeLog {
    mailbox: Arc<Mailbox<Record>>,
    waker: Arc<EventLoopWaker>,
}

#[napi]
impl NativeLog {
    /// Forwards all records of this process of at least `level` to this object, in place of another log. `ring` is called when
    /// there are records to [drain](Self::drain). It does not keep the process alive.
    #[napi(constructor)]
    pub fn new(env: &Env, level: String, ring: Function<'_, (), ()>) -> Result<Self> {
        let level = level
            .parse::<Level>()
            .map_err(|_| napi::Error::from_reason(format!("`{level}` is not a level")))?;
        let waker = Arc::new(EventLoopWaker::new(&ring)?);
        waker.keep_alive(env, false)?;
        let mailbox_waker = Arc::clone(&waker);
        let mailbox = Mailbox::new(move || mailbox_waker.wake());
        log::to_mailbox(level, Arc::clone(&mailbox))
            .map_err(|error| crate::failure::throw(env, error))?;
        Ok(Self { mailbox, waker })
    }

    /// Takes up to 128 records.
    #[napi]
    pub fn drain(&self) -> Vec<RecordOutput> {
        let mut records = Vec::new();
        self.mailbox.drain(128, |record| {
            records.push(RecordOutput {
                level: record.level.as_str(),
                target: record.target,
                message: record.message,
            });
        });
        records
    }

    /// Returns whether records wait.
    #[napi]
    pub fn has_more(&self) -> bool {
        !self.mailbox.is_empty()
    }

    /// Stops the log and drops further records.
    #[napi]
    pub fn stop(&self) {
        self.mailbox.close();
        self.waker.close();
    }
}
