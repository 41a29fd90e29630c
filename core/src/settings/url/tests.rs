use super::*;
use proptest::prelude::*;
use std::path::Path;

fn address(url: &str) -> (String, bool) {
    let settings = parse(url).unwrap();
    settings.check().unwrap();
    (settings.address(), settings.tls_enabled)
}

#[test]
fn the_scheme_decides_about_port_and_tls() {
    for (url, expected, tls) in [
        ("mqtt://broker", "broker:1883", false),
        ("mqtt://broker:1", "broker:1", false),
        ("mqtts://broker", "broker:8883", true),
        ("MQTTS://broker:65535/", "broker:65535", true),
        ("mqtt://10.0.0.1?", "10.0.0.1:1883", false),
        ("mqtts://[::1]", "[::1]:8883", true),
        ("mqtt://[fe80::1%25eth0]", "[fe80::1%eth0]:1883", false),
        ("mqtts://[fe80::1%25e%74h%2D0]:1", "[fe80::1%eth-0]:1", true),
        ("mqtt://u:%5B@[fe80::1%253]/", "[fe80::1%3]:1883", false),
        ("mqtt://%62roker", "broker:1883", false),
        ("tcp://broker", "broker:1883", false),
        ("tcp://127.0.0.1:4000", "127.0.0.1:4000", false),
        ("ssl://broker", "broker:8883", true),
        ("unix:///run/broker.sock", "/run/broker.sock", false),
        ("unix:///with%20space", "/with space", false),
    ] {
        assert_eq!(address(url), (expected.to_owned(), tls), "{url}");
    }
}

#[test]
fn several_brokers_share_everything_else() {
    for (url, expected, tls) in [
        ("mqtt://one:1,two,[::1]:3", "one:1,two:1883,[::1]:3", false),
        ("mqtts://one,two:2/?client_id=a", "one:8883,two:2", true),
        ("mqtt://u,ser:p,w@one,two", "one:1883,two:1883", false),
        (
            "mqtt://[fe80::1%25a],[fe80::2%25b]:1,[::1]",
            "[fe80::1%a]:1883,[fe80::2%b]:1,[::1]:1883",
            false,
        ),
        (
            "mqtt://one,10.0.0.1,%62,[::2]",
            "one:1883,10.0.0.1:1883,b:1883,[::2]:1883",
            false,
        ),
    ] {
        assert_eq!(address(url), (expected.to_owned(), tls), "{url}");
    }
    let credentials = parse("mqtt://u,ser:p,w@one,two").unwrap().credentials;
    assert_eq!(credentials.user_name.as_deref(), Some("u,ser"));
    assert_eq!(credentials.password.as_deref(), Some(&b"p,w"[..]));
    let socket = parse("unix:///with,comma").unwrap();
    assert_eq!(socket.address(), "/with,comma");
}

#[test]
fn a_websocket_has_a_path() {
    for (url, expected, path, tls) in [
        ("ws://broker", "broker:80", "/mqtt", false),
        ("wss://one,two:1", "one:443,two:1", "/mqtt", true),
        ("ws://broker:1/?client_id=a", "broker:1", "/", false),
        (
            "WSS://u:p@broker/a/%62?client_id=a",
            "broker:443",
            "/a/%62",
            true,
        ),
    ] {
        let settings = parse(url).unwrap();
        assert_eq!(settings.address(), expected, "{url}");
        assert_eq!(settings.websocket.as_deref(), Some(path), "{url}");
        assert_eq!(settings.tls_enabled, tls, "{url}");
        assert_eq!(settings.check().is_ok(), cfg!(feature = "ws"), "{url}");
    }
    for settings in [
        parse("ws://bro%0D%0Aker").unwrap(),
        parse("ws://br%C3%B6ker").unwrap(),
        Settings::unix("/socket").websocket("/mqtt"),
        Settings::new("broker", 1).websocket("mqtt"),
        Settings::new("broker", 1).websocket("/a b"),
    ] {
        let error = settings.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSettings);
    }
}

#[test]
fn user_and_password_are_percent_encoded() {
    for url in [
        "mqtt://us%3Aer:p%40ss:w%2Ford@broker",
        "unix://us%3Aer:p%40ss:w%2Ford@/socket",
    ] {
        let credentials = parse(url).unwrap().credentials;
        assert_eq!(credentials.user_name.as_deref(), Some("us:er"));
        assert_eq!(credentials.password.as_deref(), Some(&b"p@ss:w/ord"[..]));
    }
    let credentials = parse("mqtt://user@broker").unwrap().credentials;
    assert_eq!(credentials.user_name.as_deref(), Some("user"));
    assert_eq!(credentials.password, None);
}

#[test]
fn every_parameter_is_applied() {
    let settings = parse(
        "mqtts://broker?ca_file=/ca&cert_file=/cert&key_file=/key&key_password_file=/key%26password\
         &password_file=/password&server_name=inner&client_id=gate%20way&keep_alive=7\
         &session_expiry=9&clean_start=false",
    )
    .unwrap();
    let tls = &settings.tls;
    assert_eq!(tls.ca_file.as_deref(), Some(Path::new("/ca")));
    assert_eq!(tls.cert_file.as_deref(), Some(Path::new("/cert")));
    assert_eq!(tls.key_file.as_deref(), Some(Path::new("/key")));
    assert_eq!(
        tls.key_password_file.as_deref(),
        Some(Path::new("/key&password"))
    );
    assert_eq!(tls.server_name.as_deref(), Some("inner"));
    let password_file = settings.credentials.password_file.as_deref();
    assert_eq!(password_file, Some(Path::new("/password")));
    assert_eq!(settings.client_id.as_deref(), Some("gate way"));
    assert_eq!(settings.keep_alive_s, 7);
    assert_eq!(settings.session_expiry_s, 9);
    assert!(!settings.clean_start);
    settings.check().unwrap();

    assert!(parse("mqtt://broker?lazy=true").unwrap().lazy);
    assert!(parse("mqtt://broker?lazy=yes").is_err());
    let settings =
        parse("mqtt://broker?sat_file=/token&client_id=&allow_plaintext_credentials=true").unwrap();
    let sat_file = settings.credentials.sat_file.as_deref();
    assert_eq!(sat_file, Some(Path::new("/token")));
    assert_eq!(settings.client_id.as_deref(), Some(""));
    settings.check().unwrap();
}

/// A letter that no message contains, and the special characters of URLs.
const PASSWORD: &str = "[J%/?#@:&=\\[\\].,]{0,12}J[J%/?#@:&=\\[\\].,]{0,12}";

proptest! {
    #[test]
    fn errors_do_not_contain_the_password(
        before in "(mqtts?://|wss?://|unix://|mqtt:|http://|//|)(user)?:?",
        password in PASSWORD,
        behind in "(@broker(,b:1)?(:1883)?(/|\\?client_id=J|\\?keep_alive=J)?|@/run/socket|)",
    ) {
        let url = before + &password + &behind;
        let message = match parse(&url) {
            Err(error) => error.to_string(),
            // The URL is well-formed; the host or the path is the part before the first separator.
            Ok(settings) => match settings.check() {
                Err(error) => error.to_string().replace(&settings.address(), ""),
                Ok(()) => String::new(),
            },
        };
        prop_assert!(!message.to_ascii_uppercase().contains('J'), "{url}: {message}");
    }
}

#[test]
fn errors_name_the_part() {
    let no_host = "it names no host; write mqtt://host:port, or mqtts://host:port for TLS";
    let no_scheme = "it begins with none of `mqtt://`, `mqtts://`, `ws://`, `wss://` and `unix://`";
    let no_path = "it names no absolute path of a socket; write unix:///path";
    for (url, problem) in [
        ("http://broker", no_scheme),
        ("wss://:443", no_host),
        (
            "ws://user:1/secret@broker",
            "the path has an `@`, which is written `%40` there; a `/` in a password is written `%2F`",
        ),
        ("user:secret@broker", NO_SCHEME),
        ("mqtt:broker", no_host),
        ("mqtt://:1883", no_host),
        ("mqtt://user:secret@", no_host),
        (
            "mqtt://broker:65536",
            "the port is not a number up to 65535",
        ),
        (
            "mqtt://user:1/secret@broker",
            "a path after the host has no meaning; a `/` in a password is written `%2F`",
        ),
        (
            "mqtt://broker#part",
            "`#` and what follows it have no meaning",
        ),
        ("mqtt://%FF", "the host name is not UTF-8"),
        ("mqtt://[fe80::1%eth0]", NO_ZONE),
        ("mqtt://[fe80::1%25]", NO_ZONE),
        ("mqtt://[fe80::1%25%eth0]", NO_ZONE),
        (
            "mqtt://[fe80::1%25%FF]",
            "the zone of the address is not UTF-8",
        ),
        ("mqtt://us%FFer@broker", "the user name is not UTF-8"),
        ("mqtt://,two", no_host),
        ("mqtt://one,", no_host),
        ("mqtt://one,:2", no_host),
        (
            "mqtt://one,two:secret",
            "its broker number 2 is not written as host:port",
        ),
        (
            "mqtt://one,two:65536",
            "the port is not a number up to 65535",
        ),
        ("unix://,/socket", no_path),
        ("unix:/socket", no_path),
        ("unix://socket", no_path),
        ("unix:///", no_path),
        ("unix://", no_path),
        ("mqtt://b?ca_file", "`ca_file` has no value"),
        ("mqtt://b?ca_file=", "`ca_file` has no value"),
        (
            "mqtt://b?client_id=a&client_id=b",
            "`client_id` is given twice",
        ),
        (
            "mqtt://b?clean_start=1",
            "`clean_start` has a value which is neither `true` nor `false`",
        ),
        (
            "mqtt://b?keep_alive=65536",
            "`keep_alive` has a value which is not a number of seconds from 0 to 65535",
        ),
        (
            "mqtt://b?session_expiry=1h",
            "`session_expiry` has a value which is not a number of seconds from 0 to 4294967295",
        ),
        (
            "mqtt://user:secret@b?keep_alive=1&cafile=/ca",
            "its parameter number 2 is unknown; known are `allow_plaintext_credentials`, `ca_file`, `cert_file`, `clean_start`, `client_id`, \
             `fail_fast`, `keep_alive`, `key_file`, `key_password_file`, `lazy`, `password_file`, `sat_file`, `server_name`, \
             `session_expiry`",
        ),
    ] {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSettings);
        let text = error.to_string();
        assert_eq!(
            text,
            format!("reading the connection URL: {problem}"),
            "{url}"
        );
    }
    for text in ["", "broker", "broker:1883", "//broker"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(NO_SCHEME), "{text}: {error}");
    }
    for text in ["mqtt://bro ker", "mqtt://%zz"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains("it is not a URL"), "{text}: {error}");
    }
}
