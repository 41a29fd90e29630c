//! Exposure of the listeners to clients that show no credentials.
use super::listen_address::{ListenAddress, Scheme};
use super::{BoundAddress, ListenerConfig, Tls};
use crate::error::AnonymousExposure;
use statestored_access::Authenticator;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Clients that can reach a listener and are served without credentials if the [authenticator](Authenticator::is_anonymous) requires
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnonymousAudience {
    /// No client, or only those that file permissions let in.
    Restricted,
    /// All users of this machine.
    LocalUsers,
    /// All users of a network, and of this machine.
    Network,
}

impl AnonymousAudience {
    /// Returns the audience of one listener.
    fn of(listening: &BoundAddress, tls: Option<&Tls>, unix_mode: u32) -> Self {
        let demands_certificate = listening.scheme().is_some_and(Scheme::has_tls)
            && tls.is_some_and(Tls::requires_client_certificates);
        match (listening.path(), listening.address()) {
            _ if demands_certificate => Self::Restricted,
            (Some(path), _) if !is_open_to_local_users(path, unix_mode) => Self::Restricted,
            (None, Some(address)) if !address.ip().to_canonical().is_loopback() => Self::Network,
            _ => Self::LocalUsers,
        }
    }

    /// Returns the largest audience of several listeners.
    pub fn of_all(listening: &[BoundAddress], tls: Option<&Tls>, unix_mode: u32) -> Self {
        let audiences = listening.iter().map(|it| Self::of(it, tls, unix_mode));
        audiences.max().unwrap_or(Self::Restricted)
    }
}

/// Returns whether all local users may connect to a socket with these permissions: they may write to it, and search all its parent
/// folders. A folder whose permissions cannot be read counts as closed.
fn is_open_to_local_users(socket: &Path, mode: u32) -> bool {
    let is_searchable = |folder: &Path| {
        fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    };
    let Ok(socket) = std::path::absolute(socket) else {
        return false;
    };
    mode & 0o002 != 0 && socket.ancestors().skip(1).all(is_searchable)
}

/// Returns the listeners on networks where no credentials are required.
fn exposed<'a>(
    addresses: &'a [BoundAddress],
    tls: Option<&'a Tls>,
    unix_mode: u32,
    authenticator: &Authenticator,
) -> impl Iterator<Item = &'a BoundAddress> {
    let audience = move |it: &BoundAddress| AnonymousAudience::of(it, tls, unix_mode);
    let is_anonymous = authenticator.is_anonymous();
    addresses
        .iter()
        .filter(move |it| is_anonymous && audience(it) == AnonymousAudience::Network)
}

/// Rejects listeners on networks where no credentials are required, unless the settings allow them.
pub fn check(
    addresses: &[BoundAddress],
    config: &ListenerConfig,
    authenticator: &Authenticator,
) -> Result<(), AnonymousExposure> {
    let tls = config.tls.as_ref();
    match exposed(addresses, tls, config.unix_mode, authenticator).next() {
        Some(listening) if !config.allows_anonymous => Err(AnonymousExposure {
            address: listening.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Warns of listeners on networks where no credentials are required.
pub fn warn_of_anonymous(
    addresses: &[BoundAddress],
    tls: Option<&Tls>,
    unix_mode: u32,
    authenticator: &Authenticator,
) {
    for listening in exposed(addresses, tls, unix_mode, authenticator) {
        tracing::warn!("every client that can reach {listening} may read and write all keys");
    }
}

/// Returns the listeners of a configuration before any of them is bound, as far as their names have addresses.
pub fn resolve(listeners: &[ListenAddress]) -> Vec<BoundAddress> {
    listeners
        .iter()
        .filter_map(|address| Some((address.scheme()?, address.resolve().ok()?)))
        .flat_map(|(scheme, resolved)| {
            resolved
                .into_iter()
                .map(move |address| BoundAddress::network(scheme, address))
        })
        .collect()
}

/// Warns of listeners where credentials and data cross a network unencrypted.
pub fn warn_about_clear_text(addresses: &[BoundAddress], authenticator: &Authenticator) {
    for listening in addresses.iter().filter(|listening| is_reachable(listening)) {
        let is_clear = listening.scheme().is_some_and(|scheme| !scheme.has_tls());
        if is_clear && !authenticator.is_anonymous() {
            tracing::warn!(
                "passwords, keys and values of clients that connect to {listening} cross the network in clear: \
                 listen with tls:// or wss://, or on a loopback address"
            );
        }
    }
}

/// Returns whether other machines can connect.
fn is_reachable(listening: &BoundAddress) -> bool {
    listening
        .address()
        .is_some_and(|address| !address.ip().to_canonical().is_loopback())
}
