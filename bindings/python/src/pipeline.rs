//! Several requests of any kind, sent together.
use crate::argument::OptionalArgument;
use crate::codec::Codec;
use crate::options;
use crate::outcome;
use crate::shared::Shared;
use crate::unknown_argument::reject_in_set;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use statestore::{DelOptions, DelOutcome, Entry, GetOptions, SetOptions, SetOutcome, VdelOutcome};
use statestore_embed::{Client, Error};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Maximum number of requests of one pipeline that are under way.
const MAX_IN_FLIGHT: usize = 256;

/// A request that was not sent yet.
#[derive(Debug)]
enum Request {
    Get(Bytes, GetOptions),
    Set(Bytes, Bytes, SetOptions),
    Del(Bytes, DelOptions),
    Vdel(Bytes, Bytes, DelOptions),
}

/// The result of a request.
enum Reply {
    Entry(Option<Entry>),
    Set(SetOutcome),
    Del(DelOutcome),
    Vdel(VdelOutcome),
}

type PipelineReplies = Vec<Result<Reply, Error>>;

impl Request {
    fn begin(self, client: &Client) -> Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>> {
        match self {
            Self::Get(key, options) => {
                let get = client.get(key, options);
                Box::pin(async move { get.await.map(Reply::Entry) })
            }
            Self::Set(key, value, options) => {
                let set = client.set(key, value, options);
                Box::pin(async move { set.await.map(Reply::Set) })
            }
            Self::Del(key, options) => {
                let del = client.del(key, options);
                Box::pin(async move { del.await.map(Reply::Del) })
            }
            Self::Vdel(key, value, options) => {
                let vdel = client.vdel(key, value, options);
                Box::pin(async move { vdel.await.map(Reply::Vdel) })
            }
        }
    }
}

impl Reply {
    fn write(&self, py: Python<'_>, codec: &Codec) -> PyResult<Py<PyAny>> {
        match self {
            Self::Entry(found) => outcome::optional_entry(py, codec, found.as_ref()),
            Self::Set(outcome) => outcome::set(py, outcome),
            Self::Del(outcome) => outcome::del(py, outcome),
            Self::Vdel(outcome) => outcome::vdel(py, outcome),
        }
    }
}

/// Sends requests in their order, without waiting for each other.
async fn execute_all(client: Client, requests: Vec<Request>) -> Result<PipelineReplies, Error> {
    // An unusable client reports its error once.
    client.core()?;
    let mut waiting = requests.into_iter();
    let mut replies: Vec<_> = (0..waiting.len()).map(|_| None).collect();
    let mut under_way: Vec<(usize, _)> = Vec::new();
    let mut begun = 0;
    poll_fn(move |context: &mut Context<'_>| {
        loop {
            under_way.retain_mut(
                |(place, request): &mut (usize, Pin<Box<dyn Future<Output = _> + Send>>)| {
                    match request.as_mut().poll(context) {
                        Poll::Pending => true,
                        Poll::Ready(reply) => {
                            replies[*place] = Some(reply);
                            false
                        }
                    }
                },
            );
            let room = MAX_IN_FLIGHT - under_way.len();
            let before = begun;
            for request in waiting.by_ref().take(room) {
                under_way.push((begun, request.begin(&client)));
                begun += 1;
            }
            if under_way.is_empty() {
                let replies = std::mem::take(&mut replies);
                return Poll::Ready(Ok(replies.into_iter().flatten().collect()));
            }
            if begun == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Requests that are sent together, by `execute`.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    shared: Arc<Shared>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Pipeline {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            requests: Arc::default(),
        }
    }

    fn push<'a, 'py>(slf: &'a Bound<'py, Self>, request: Request) -> &'a Bound<'py, Self> {
        lock(&slf.get().requests).push(request);
        slf
    }
}

#[pymethods]
impl Pipeline {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        format!("<Pipeline of {}>", lock(&self.requests).len())
    }

    fn __len__(&self) -> usize {
        lock(&self.requests).len()
    }

    /// Adds a `Client.get`. Returns the pipeline, so that you can chain calls.
    #[pyo3(
        signature = (key, *, remaining=None, eventual=None, timeout=None),
        text_signature = "($self, key, *, remaining=False, eventual=False, timeout=None)"
    )]
    fn get<'a, 'py>(
        slf: &'a Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        remaining: OptionalArgument<'_, 'py>,
        eventual: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
    ) -> PyResult<&'a Bound<'py, Self>> {
        let key = slf.get().shared.codec.read("key", key)?;
        let options = options::get(remaining, eventual, timeout)?;
        Ok(Self::push(slf, Request::Get(key, options)))
    }

    /// Adds a `Client.set`. Returns the pipeline.
    #[allow(clippy::too_many_arguments, reason = "each is an option")]
    #[pyo3(
        signature = (
            key, value, *, condition=None, expires_in=None, fencing_token=None, persist=None, coalesce=None, timeout=None, retry=None,
            **unknown,
        ),
        text_signature = "($self, key, value, *, condition='always', expires_in=None, fencing_token=None, persist=False, coalesce=False, timeout=None, retry='safe')"
    )]
    fn set<'a, 'py>(
        slf: &'a Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        condition: OptionalArgument<'_, 'py>,
        expires_in: OptionalArgument<'_, 'py>,
        fencing_token: OptionalArgument<'_, 'py>,
        persist: OptionalArgument<'_, 'py>,
        coalesce: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<&'a Bound<'py, Self>> {
        reject_in_set("Pipeline.set()", unknown)?;
        let codec = &slf.get().shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::SetArguments {
            condition,
            expires_in,
            fencing_token,
            persist,
            coalesce,
            timeout,
            retry,
        };
        Ok(Self::push(slf, Request::Set(key, value, options.read()?)))
    }

    /// Adds a `Client.delete`. Returns the pipeline.
    #[pyo3(
        signature = (key, *, fencing_token=None, if_version=None, timeout=None, retry=None),
        text_signature = "($self, key, *, fencing_token=None, if_version=None, timeout=None, retry='safe')"
    )]
    fn delete<'a, 'py>(
        slf: &'a Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        fencing_token: OptionalArgument<'_, 'py>,
        if_version: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<&'a Bound<'py, Self>> {
        let key = slf.get().shared.codec.read("key", key)?;
        let options = options::del(fencing_token, if_version, timeout, retry)?;
        Ok(Self::push(slf, Request::Del(key, options)))
    }

    /// Adds a `Client.vdel`. Returns the pipeline.
    #[pyo3(
        signature = (key, value, *, fencing_token=None, if_version=None, timeout=None, retry=None),
        text_signature = "($self, key, value, *, fencing_token=None, if_version=None, timeout=None, retry='safe')"
    )]
    fn vdel<'a, 'py>(
        slf: &'a Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        fencing_token: OptionalArgument<'_, 'py>,
        if_version: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<&'a Bound<'py, Self>> {
        let codec = &slf.get().shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::del(fencing_token, if_version, timeout, retry)?;
        Ok(Self::push(slf, Request::Vdel(key, value, options)))
    }

    /// Removes all requests, and returns their number.
    fn _clear(&self) -> usize {
        std::mem::take(&mut *lock(&self.requests)).len()
    }

    /// Sends all added requests together, in their order: a list of the results. The pipeline is
    /// empty then.
    ///
    /// This is no transaction. If any request fails, the others are carried out nevertheless, and the first failure is raised;
    /// its `results` has for each request the result or the error.
    fn execute<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let requests = std::mem::take(&mut *lock(&self.requests));
        let client = self.shared.client.clone();
        let replies = execute_all(client, requests);
        self.shared
            .run(py, "executing a pipeline", replies, |py, codec, replies| {
                outcome::result_list(py, &replies, |py, reply| reply.write(py, codec))
            })
    }
}

fn lock(requests: &Mutex<Vec<Request>>) -> std::sync::MutexGuard<'_, Vec<Request>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}
