//! Objects that belong to a client.
use crate::handle::Object;
use statestore_embed::Client;

/// An object that belongs to a client.
pub(crate) trait ClientObject: Object {
    fn client(&self) -> &Client;
}

/// An object together with its client.
pub(crate) struct WithClient<T> {
    pub(crate) inner: T,
    client: Client,
}

impl<T> WithClient<T> {
    pub(crate) fn new(it: T, client: &Client) -> Self {
        Self {
            inner: it,
            client: client.clone(),
        }
    }
}

impl<T> ClientObject for WithClient<T>
where
    Self: Object,
{
    fn client(&self) -> &Client {
        &self.client
    }
}
