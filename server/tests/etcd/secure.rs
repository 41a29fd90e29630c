//! An etcd that asks who somebody is, over TLS.
use crate::cluster::{Etcd, config};
use etcd_client::{
    Certificate as Pem, Client as EtcdClient, ConnectOptions, Identity, Permission, PermissionType,
    TlsOptions,
};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored::keyspace::remote::etcd::{EtcdConfig, EtcdTls};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// Files that an authority has made.
struct Files {
    folder: TempDir,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn authority(folder: &Path, name: &str) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate: Certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join(name), certificate.pem()).unwrap();
    Issuer::new(params, key)
}

impl Files {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder };
        let issuer = authority(files.folder.path(), "ca.pem");
        authority(files.folder.path(), "other-ca.pem");
        for name in ["etcd", "server"] {
            let key = KeyPair::generate().unwrap();
            let names = ["127.0.0.1".to_owned()];
            let params = CertificateParams::new(names).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            std::fs::write(files.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(files.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        std::fs::write(files.path("password"), "secret\n").unwrap();
        std::fs::write(files.path("wrong-password"), "guessed\n").unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// An etcd that trusts who this authority has signed, with a user who may do everything below `allowed/`.
    fn etcd(&self) -> Etcd {
        let file = |option, name| format!("--{option}={}", self.path(name).display());
        let etcd = Etcd::with(&[
            file("cert-file", "etcd.pem"),
            file("key-file", "etcd.key"),
            file("trusted-ca-file", "ca.pem"),
            "--client-cert-auth".to_owned(),
        ]);
        runtime().block_on(async {
            let tls = TlsOptions::new()
                .ca_certificate(Pem::from_pem(self.text("ca.pem")))
                .identity(Identity::from_pem(
                    self.text("server.pem"),
                    self.text("server.key"),
                ));
            let options = ConnectOptions::new().with_tls(tls);
            let endpoints = [etcd.endpoint()];
            let mut client = EtcdClient::connect(endpoints, Some(options)).await.unwrap();
            client.role_add("root").await.unwrap();
            client.user_add("root", "root", None).await.unwrap();
            client.user_grant_role("root", "root").await.unwrap();
            let mut below = Permission::new(PermissionType::Readwrite, "allowed/");
            below = below.with_prefix();
            client.role_add("store").await.unwrap();
            client.role_grant_permission("store", below).await.unwrap();
            client.user_add("node", "secret", None).await.unwrap();
            client.user_grant_role("node", "store").await.unwrap();
            client.auth_enable().await.unwrap();
        });
        etcd
    }

    fn config(&self, etcd: &Etcd, change: impl FnOnce(&mut EtcdConfig)) -> Config {
        let mut config = config(etcd, "allowed");
        if let StorageConfig::Etcd(etcd) = &mut config.storage {
            etcd.tls = Some(EtcdTls {
                ca: Some(self.path("ca.pem")),
                identity: Some((self.path("server.pem"), self.path("server.key"))),
            });
            etcd.user = Some(("node".into(), self.path("password")));
            change(etcd);
        }
        config
    }
}

#[test]
fn a_server_shows_a_certificate_and_a_password() {
    let files = Files::make();
    let etcd = files.etcd();
    let server = RunningServer::start(files.config(&etcd, |_| {})).unwrap();
    LocalSet::new().block_on(&runtime(), async {
        let settings: Settings = server.url().parse().unwrap();
        let client = Client::connect(settings).await.unwrap();
        client.set("k", "v").await.unwrap();
        let entry = client.get("k").await.unwrap().unwrap();
        assert_eq!(&entry.value[..], b"v");
    });
    server.stop().unwrap();
}

#[test]
fn what_etcd_does_not_accept_is_named_with_what_there_is_to_do() {
    let files = Files::make();
    let etcd = files.etcd();
    let error = |change: &dyn Fn(&mut EtcdConfig)| {
        let config = files.config(&etcd, change);
        RunningServer::start(config).unwrap_err().to_string()
    };
    // It takes the name in the certificate then.
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
