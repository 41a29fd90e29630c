//! IPv6 addresses with a zone, the network interface through which they are reached.
use crate::Files;
use crate::authority::Authority;
use crate::broker::Tls;
use crate::support::within;
use statestore::{Client, ErrorKind, Settings};
use statestored::{RunningServer, config::Config};
use std::net::{Ipv6Addr, SocketAddrV6};
use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// Link-local addresses of this machine, each with the number and the name of its interface.
#[cfg(target_os = "linux")]
fn link_local() -> Vec<(Ipv6Addr, u32, String)> {
    let known = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let parsed = known.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let address = Ipv6Addr::from(u128::from_str_radix(fields.first()?, 16).ok()?);
        let number = u32::from_str_radix(fields.get(1)?, 16).ok()?;
        let name = (*fields.get(5)?).to_owned();
        address
            .is_unicast_link_local()
            .then_some((address, number, name))
    });
    parsed.collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_link_local_address_is_reached_through_the_interface_that_its_zone_names() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let store_address = store.addresses()[0];
    for (address, number, name) in link_local() {
        let listener = TcpListener::bind(SocketAddrV6::new(address, 0, 0, number));
        let listener = listener.await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for zone in [name, number.to_string()] {
            let url = format!("mqtt://[{address}%25{zone}]:{port}");
            let proxy = async {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut far = TcpStream::connect(store_address).await.unwrap();
                copy_bidirectional(&mut near, &mut far).await
            };
            let use_it = async {
                let client = Client::connect(Settings::from_url(&url).unwrap());
                let client = client.await.unwrap();
                client.set("key", &*url).await.unwrap();
                client.close().await;
            };
            let (proxied, ()) = within(async { tokio::join!(proxy, use_it) }).await;
            proxied.unwrap();
        }
    }
}

#[tokio::test]
async fn an_unknown_interface_is_named() {
    let url = "mqtt://[fe80::1%25no-such-interface]:1883";
    let error = Client::connect(Settings::from_url(url).unwrap()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let text = error.to_string();
    assert!(
        text.contains(
            "the zone after `%` in `fe80::1%no-such-interface` is not a network interface"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_zone_is_not_compared_with_the_certificate() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else {
        return;
    };
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let acceptor = Tls::new(&authority.issue(["::1"])).acceptor();
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let store_address = store.addresses()[0];
    let port = listener.local_addr().unwrap().port();
    let proxy = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut near = acceptor.accept(tcp).await.unwrap();
        let mut far = TcpStream::connect(store_address).await.unwrap();
        // An error is the client's way to end the connection.
        let _ = copy_bidirectional(&mut near, &mut far).await;
    });
    let url = format!("mqtts://[::1%251]:{port}?ca_file={}", ca_file.display());
    let client = within(Client::connect(Settings::from_url(&url).unwrap())).await;
    client.unwrap().close().await;
    within(proxy).await.unwrap();
}

#[tokio::test]
async fn a_zone_is_not_sent_in_the_handshake_of_a_websocket() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else {
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let url = format!("ws://[::1%251]:{port}");
    let connecting = tokio::spawn(Client::connect(Settings::from_url(&url).unwrap()));
    let (mut peer, _) = within(listener.accept()).await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(within(peer.read_u8()).await.unwrap());
    }
    let request = String::from_utf8(request).unwrap();
    let host = format!("\r\nHost: [::1]:{port}\r\n");
    assert!(request.contains(&host), "{request}");
    drop(peer);
    within(connecting).await.unwrap().unwrap_err();
}
