//! A Redis with authentication, over TLS.
use crate::elsewhere::files::TlsFixture;
use crate::elsewhere::{block_on, connect_to, value};
use crate::server::Redis;
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored_link::EngineTls;
use statestored_redis::RedisConfig;

/// Starts a Redis that trusts certificates of this authority. Its user has the permissions that a server needs, for keys that
/// begin with `{allowed}`.
fn redis(files: &TlsFixture) -> Redis {
    let path = |name| files.path(name).to_str().unwrap().to_owned();
    Redis::with(&[
        "--tls-cert-file",
        &path("engine.pem"),
        "--tls-key-file",
        &path("engine.key"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
        "--user",
        "default",
        "off",
        "--user",
        "node",
        "on",
        ">secret",
        "~{allowed}:*",
        "+@all",
        "-@dangerous",
        "+info",
    ])
}

fn config(files: &TlsFixture, redis: &Redis, change: impl FnOnce(&mut RedisConfig)) -> Config {
    let mut config = RedisConfig {
        tls: Some(EngineTls {
            ca: Some(files.path("ca.pem")),
            identity: Some((files.path("server.pem"), files.path("server.key"))),
        }),
        user: Some("node".into()),
        password: Some(files.path("password")),
        ..redis.redis_config("allowed")
    };
    change(&mut config);
    Config {
        storage: StorageConfig::Redis(config),
        ..Config::in_memory()
    }
}

#[test]
fn a_server_authenticates_with_certificate_and_password() {
    let files = TlsFixture::make();
    let redis = redis(&files);
    let server = RunningServer::start(config(&files, &redis, |_| {})).unwrap();
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "v").await.unwrap();
        assert_eq!(value(&client, "k").await.as_deref(), Some("v"));
        let keys = client.scan("*").next_page().await.unwrap().unwrap();
        assert_eq!(keys, ["k"]);
        client.observe("k").await.unwrap();
    });
    server.stop().unwrap();
}

#[test]
fn rejections_by_redis_are_reported_with_advice() {
    let files = TlsFixture::make();
    let redis = redis(&files);
    let error = |change: &dyn Fn(&mut RedisConfig)| {
        let config = config(&files, &redis, change);
        RunningServer::start(config).unwrap_err().to_string()
    };
    let wrong_password = error(&|redis| redis.password = Some(files.path("wrong-password")));
    assert!(
        wrong_password.contains("look at --redis-user and --redis-password-file"),
        "{wrong_password}"
    );
    let no_password = error(&|redis| (redis.user, redis.password) = (None, None));
    assert!(
        no_password.contains("--redis-password-file"),
        "{no_password}"
    );
    let no_right = error(&|redis| redis.prefix = "elsewhere".into());
    assert!(
        no_right.contains("ACL SETUSER node ~{elsewhere}:*"),
        "{no_right}"
    );
    let wrong_authority = error(&|redis| {
        redis.tls.as_mut().unwrap().ca = Some(files.path("other-ca.pem"));
    });
    assert!(wrong_authority.contains("certificate"), "{wrong_authority}");
    let no_certificate = error(&|redis| redis.tls.as_mut().unwrap().identity = None);
    assert!(no_certificate.contains("--redis-cert"), "{no_certificate}");
    let no_file = error(&|redis| {
        redis.tls.as_mut().unwrap().ca = Some(files.path("nothing.pem"));
    });
    assert!(no_file.contains("nothing.pem"), "{no_file}");
}
