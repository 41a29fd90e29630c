//! An etcd with authentication, over TLS.
use crate::cluster::Etcd;
use crate::elsewhere::files::TlsFixture;
use crate::elsewhere::world::Store;
use crate::elsewhere::{Engine, LONG};
use etcd_client::{
    Certificate as Pem, Client as EtcdClient, ConnectOptions, Identity, Permission, PermissionType,
    RoleRevokePermissionOptions, TlsOptions,
};
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored_etcd::EtcdConfig;
use statestored_link::EngineTls;
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn text(files: &TlsFixture, name: &str) -> String {
    std::fs::read_to_string(files.path(name)).unwrap()
}

async fn connect(files: &TlsFixture, etcd: &Etcd, options: ConnectOptions) -> EtcdClient {
    let tls = TlsOptions::new()
        .ca_certificate(Pem::from_pem(text(files, "ca.pem")))
        .identity(Identity::from_pem(
            text(files, "server.pem"),
            text(files, "server.key"),
        ));
    let endpoints = [etcd.endpoint()];
    let client = EtcdClient::connect(endpoints, Some(options.with_tls(tls)));
    client.await.unwrap()
}

async fn root(files: &TlsFixture, etcd: &Etcd) -> EtcdClient {
    connect(files, etcd, ConnectOptions::new().with_user("root", "root")).await
}

fn allowed() -> Permission {
    Permission::new(PermissionType::Readwrite, "allowed/").with_prefix()
}

/// Starts an etcd that trusts certificates of this authority, with a user who has all permissions below `allowed/`.
fn etcd(files: &TlsFixture) -> Etcd {
    let file = |option, name| format!("--{option}={}", files.path(name).display());
    let etcd = Etcd::with(&[
        file("cert-file", "engine.pem"),
        file("key-file", "engine.key"),
        file("trusted-ca-file", "ca.pem"),
        "--client-cert-auth".to_owned(),
    ]);
    runtime().block_on(async {
        let mut client = connect(files, &etcd, ConnectOptions::new()).await;
        client.role_add("root").await.unwrap();
        client.user_add("root", "root", None).await.unwrap();
        client.user_grant_role("root", "root").await.unwrap();
        client.role_add("store").await.unwrap();
        let granted = client.role_grant_permission("store", allowed());
        granted.await.unwrap();
        client.user_add("node", "secret", None).await.unwrap();
        client.user_grant_role("node", "store").await.unwrap();
        client.auth_enable().await.unwrap();
    });
    etcd
}

fn config(files: &TlsFixture, etcd: &Etcd, change: impl FnOnce(&mut EtcdConfig)) -> Config {
    let mut config = etcd.config("allowed");
    if let StorageConfig::Etcd(etcd) = &mut config.storage {
        etcd.tls = Some(EngineTls {
            ca: Some(files.path("ca.pem")),
            identity: Some((files.path("server.pem"), files.path("server.key"))),
        });
        etcd.user = Some(("node".into(), files.path("password")));
        change(etcd);
    }
    config
}

#[test]
fn a_server_authenticates_with_certificate_and_password() {
    let files = TlsFixture::make();
    let etcd = etcd(&files);
    let server = RunningServer::start(config(&files, &etcd, |_| {})).unwrap();
    LocalSet::new().block_on(&runtime(), async {
        let settings: Settings = server.url().parse().unwrap();
        let client = Client::connect(settings).await.unwrap();
        client.set("k", "v").await.unwrap();
        let entry = client.get("k").await.unwrap().unwrap();
        assert_eq!(&entry.value[..], b"v");
    });
    server.stop().unwrap();
}

/// A server that lets etcd forget each second what was.
fn launch(files: &TlsFixture, etcd: &Etcd) -> Store {
    let storage = format!("etcds://127.0.0.1:{}/allowed", etcd.port);
    let path = |name: &str| files.path(name).to_str().unwrap().to_owned();
    Store::launch(&[
        "--storage",
        &storage,
        "--etcd-ca",
        &path("ca.pem"),
        "--etcd-cert",
        &path("server.pem"),
        "--etcd-key",
        &path("server.key"),
        "--etcd-user",
        "node",
        "--etcd-password-file",
        &path("password"),
        "--etcd-history",
        "1",
        "--listen",
        "tcp://127.0.0.1:0",
        "--log",
        "debug",
    ])
}

/// Releases differ in whether a user other than root may compact: 3.4.23 allows it, 3.6.16 does not.
#[test]
fn without_compaction_permission_the_server_warns_once() {
    let files = TlsFixture::make();
    let etcd = etcd(&files);
    let launch = || launch(&files, &etcd);
    let mut first = launch();
    let said = first.wait_for_any_log(&["etcd was compacted", "may not compact etcd"]);
    let is_allowed = said.contains("was compacted");
    runtime().block_on(async {
        let settings = format!("mqtt://{}", first.listener.unwrap());
        let client = Client::connect(settings.parse::<Settings>().unwrap());
        let client = client.await.unwrap();
        client.set("k", "v").await.unwrap();
        assert!(client.get("k").await.unwrap().is_some());
    });
    // Others begin later, and know as much some time later: the first one has had more turns by then.
    for _ in 0..2 {
        launch().wait_for_any_log(&["etcd was compacted", "may not compact etcd"]);
    }
    first.terminate();
    assert!(first.wait().success());
    let rest = first.rest_of_log();
    let warnings = rest.iter().filter(|line| line.contains("WARN"));
    assert_eq!(warnings.count(), 0, "{rest:?}");
    assert_eq!(
        rest.iter().any(|line| line.contains("was compacted")),
        is_allowed
    );
}

/// An operator may take a right away, and give it back.
#[test]
fn compaction_resumes_after_the_permission_is_restored() {
    let files = TlsFixture::make();
    let etcd = etcd(&files);
    let server = launch(&files, &etcd);
    let compacted = "etcd was compacted";
    let refused = "may not compact etcd";
    if server
        .wait_for_any_log(&[compacted, refused])
        .contains(refused)
    {
        // This release allows compaction for root only.
        return;
    }
    runtime().block_on(async {
        let mut client = root(&files, &etcd).await;
        let all = RoleRevokePermissionOptions::new().with_prefix();
        let revoked = client.role_revoke_permission("store", "allowed/", Some(all));
        revoked.await.unwrap();
    });
    let said = server.wait_for_any_log(&["cannot compact etcd", refused]);
    assert!(said.contains("cannot compact etcd"), "{said}");
    runtime().block_on(async {
        let mut client = root(&files, &etcd).await;
        let granted = client.role_grant_permission("store", allowed());
        granted.await.unwrap();
    });
    server.wait_for_any_log(&[compacted]);
}

#[test]
fn rejections_by_etcd_are_reported_with_advice() {
    let files = TlsFixture::make();
    let etcd = etcd(&files);
    let error = |change: &dyn Fn(&mut EtcdConfig)| {
        let config = config(&files, &etcd, change);
        RunningServer::start(config).unwrap_err().to_string()
    };
    // Without a user, etcd takes the name in the certificate.
    let other_user = error(&|etcd| etcd.user = None);
    assert!(other_user.contains("permission denied"), "{other_user}");
    let wrong_password = error(&|etcd| {
        etcd.user = Some(("node".into(), files.path("wrong-password")));
    });
    assert!(
        wrong_password.contains("--etcd-password-file"),
        "{wrong_password}"
    );
    let no_right = error(&|etcd| etcd.prefix = "elsewhere".into());
    assert!(
        no_right.contains("grant-permission ROLE readwrite --prefix=true elsewhere/"),
        "{no_right}"
    );
    let wrong_authority = error(&|etcd| {
        etcd.tls.as_mut().unwrap().ca = Some(files.path("other-ca.pem"));
    });
    assert!(wrong_authority.contains("certificate"), "{wrong_authority}");
    let no_certificate = error(&|etcd| etcd.tls.as_mut().unwrap().identity = None);
    assert!(no_certificate.contains("--etcd-cert"), "{no_certificate}");
    let no_file = error(&|etcd| {
        etcd.tls.as_mut().unwrap().ca = Some(files.path("nothing.pem"));
    });
    assert!(no_file.contains("nothing.pem"), "{no_file}");
}

async fn sets(client: &Client) {
    let end = Instant::now() + LONG;
    while let Err(error) = client.set("k", "v").await {
        assert!(Instant::now() < end, "{error}");
    }
}

async fn client_at(server: &Store) -> Client {
    let settings = format!("mqtt://{}", server.listener.unwrap());
    let settings = settings.parse::<Settings>().unwrap();
    Client::connect(settings).await.unwrap()
}

#[test]
fn a_changed_password_file_is_reread() {
    let files = TlsFixture::make();
    let etcd = etcd(&files);
    let server = launch(&files, &etcd);
    LocalSet::new().block_on(&runtime(), async {
        client_at(&server).await.set("k", "v").await.unwrap();
        let mut root = root(&files, &etcd).await;
        let changed = root.user_change_password("node", "changed");
        changed.await.unwrap();
    });
    let said = server.wait_for_any_log(&["authentication failed"]);
    assert!(said.contains("--etcd-password-file"), "{said}");
    std::fs::write(files.path("password"), "changed\n").unwrap();
    server.wait_for_log("were read again");
    LocalSet::new().block_on(&runtime(), async {
        sets(&client_at(&server).await).await;
    });
}

#[test]
fn a_replaced_certificate_is_reread() {
    let files = TlsFixture::make();
    let copy = |from: &str, to: &str| {
        std::fs::copy(files.path(from), files.path(to)).unwrap();
    };
    copy("ca.pem", "clients-ca.pem");
    let file = |option, name| format!("--{option}={}", files.path(name).display());
    let mut etcd = Etcd::with(&[
        file("cert-file", "engine.pem"),
        file("key-file", "engine.key"),
        file("trusted-ca-file", "clients-ca.pem"),
        "--client-cert-auth".to_owned(),
    ]);
    let server = RunningServer::start(config(&files, &etcd, |etcd| etcd.user = None)).unwrap();
    LocalSet::new().block_on(&runtime(), async {
        let client = Client::connect(server.url().parse::<Settings>().unwrap());
        let client = client.await.unwrap();
        client.set("k", "v").await.unwrap();
        etcd.kill();
        copy("other-ca.pem", "clients-ca.pem");
        copy("next.pem", "server.pem");
        copy("next.key", "server.key");
        etcd.restart();
        sets(&client).await;
    });
    server.stop().unwrap();
}
