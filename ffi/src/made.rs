//! Objects that belong to a client.
use crate::handle::Object;
use statestore_embed::Client;

/// An object that belongs to a client.
pub(crate) trait OfClient: Object {
    fn client(&self) -> &Client;
}

/// An object together with its client.
pub(crate) struct Made<T> {
    pub(crate) it: T,
    client: Client,
}

impl<T> Made<T> {
    pub(crate) fn new(it: T, client: &Client) -> Self {
        Self {
            it,
            client: client.clone(),
        }
    }
}

impl<T> OfClient for Made<T>
where
    Self: Object,
{
    fn client(&self) -> &Client {
        &self.client
    }
}
