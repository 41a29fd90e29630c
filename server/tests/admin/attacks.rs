//! Hostile requests to the HTTP port.
use crate::http::{TOKEN, bearer, get, get_with, open, parse_response, raw, server};
use std::io::{Read, Write};

#[test]
fn garbage_is_refused_and_the_server_keeps_serving() {
    let server = server();
    let address = server.http_address().unwrap();
    for garbage in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"\x10\x0c\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let text = {
            let mut stream = open(address);
            stream.write_all(garbage).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut text = Vec::new();
            // Unread input turns the end of the connection into a reset.
            let _ = stream.read_to_end(&mut text);
            String::from_utf8(text).unwrap()
        };
        assert!(
            text.is_empty() || parse_response(&text).status == 400,
            "{text:?}"
        );
    }
    assert_eq!(get(&server, "/healthz").status, 200);
}

#[test]
fn an_incomplete_request_times_out() {
    let server = server();
    let address = server.http_address().unwrap();
    // The server closes it; a test that waits longer than its patience fails.
    let text = raw(
        address,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    );
    assert!(
        text.is_empty() || parse_response(&text).status == 408,
        "{text:?}"
    );
}

#[test]
fn oversized_requests_are_refused() {
    let server = server();
    let address = server.http_address().unwrap();
    let lines = format!("X-Large: {}\r\n", "a".repeat(20_000));
    assert_eq!(get_with(address, "/healthz", &lines).status, 431);
    let path = format!("/{}", "a".repeat(20_000));
    let status = get_with(address, &path, "").status;
    assert!([414, 431].contains(&status), "{status}");
    let lines = "X-Many: 1\r\n".repeat(100);
    assert_eq!(get_with(address, "/healthz", &lines).status, 431);
    assert_eq!(
        get_with(address, "/healthz", "Content-Length: 5\r\n").status,
        400
    );
}

#[test]
fn request_smuggling_is_prevented() {
    let server = server();
    let address = server.http_address().unwrap();
    let hidden = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (lines, body) in [
        (
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "0\r\n\r\n",
        ),
        ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        ("Content-Length: 0\r\nContent-Length: 44\r\n", ""),
        ("Content-Length: +0\r\n", ""),
        ("Content-Length: 44, 44\r\n", ""),
    ] {
        for method in ["GET", "POST"] {
            let request = format!(
                "{method} /healthz HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}{hidden}"
            );
            let text = raw(address, request.as_bytes());
            assert!(!text.contains("statestored_"), "{lines}: {text}");
            assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{lines}: {text}");
            let status = parse_response(&text).status;
            assert!([400, 411].contains(&status), "{lines}: {text}");
        }
    }
}

#[test]
fn paths_are_matched_exactly() {
    let server = server();
    for path in [
        "/../metrics",
        "/%2e%2e/metrics",
        "//metrics",
        "/metrics/",
        "/metrics/..",
        "/%6detrics",
        "/metrics%00",
        "/./metrics",
        "/\\metrics",
        "/etc/passwd",
        "/../../../../etc/passwd",
    ] {
        let status = get(&server, path).status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
}

#[test]
fn unknown_host_names_are_refused() {
    let server = server();
    let address = server.http_address().unwrap();
    let ask = |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        parse_response(&raw(address, request.as_bytes())).status
    };
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        &address.to_string(),
    ] {
        assert_eq!(ask(&format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "10.0.0.1",
        "[::1]",
        "127.0.0.1@evil.example",
        "evil@localhost",
    ] {
        let status = ask(&format!("Host: {host}\r\n"));
        assert_eq!(status, 421, "{host}");
    }
    assert_eq!(ask(""), 400);
    assert_eq!(ask("Host: localhost\r\nHost: evil.example\r\n"), 400);
    let proxy =
        b"GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(parse_response(&raw(address, proxy)).status, 400);
}

#[test]
fn cross_origin_requests_are_refused() {
    let server = server();
    let address = server.http_address().unwrap();
    let own = format!("Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(get_with(address, "/metrics", &own).status, 200);
    for lines in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
    ] {
        let refused = get_with(address, "/metrics", lines);
        assert_eq!(refused.status, 403, "{lines}");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
}

#[test]
fn a_wrong_token_is_refused_even_for_public_paths() {
    let server = server();
    let address = server.http_address().unwrap();
    assert_eq!(get_with(address, "/metrics", &bearer(TOKEN)).status, 200);
    let longer = format!("{TOKEN}x");
    for token in ["", "wrong", &TOKEN[1..], &longer] {
        assert_eq!(
            get_with(address, "/metrics", &bearer(token)).status,
            401,
            "{token}"
        );
    }
    let basic = format!("Authorization: Basic {TOKEN}\r\n");
    assert_eq!(get_with(address, "/metrics", &basic).status, 401);
    let twice = bearer(TOKEN) + &bearer(TOKEN);
    assert_eq!(get_with(address, "/metrics", &twice).status, 401);
    let cookie = format!("Cookie: token={TOKEN}\r\n");
    assert_eq!(get_with(address, "/metrics", &cookie).status, 200);
}

#[test]
fn the_page_is_small_and_has_no_inline_code() {
    let server = server();
    let document = get(&server, "/").body;
    let mut bytes = document.len();
    let mut paths = ["/page.css", "/icon.svg", "/page.js"]
        .map(str::to_owned)
        .to_vec();
    let mut code = String::new();
    let mut fetched = 0;
    // Each script imports the others that it needs.
    while let Some(path) = paths.get(fetched).cloned() {
        let part = get(&server, &path);
        assert_eq!(part.status, 200, "{path}");
        fetched += 1;
        bytes += part.body.len();
        for import in part.body.split(" from \"./").skip(1) {
            let import = format!("/{}", import.split('"').next().unwrap());
            if !paths.contains(&import) {
                paths.push(import);
            }
        }
        code.push_str(&part.body);
    }
    assert!(fetched > 10, "{paths:?}");
    assert!(bytes <= 250_000, "{bytes}");
    for inline in [
        "style=",
        "onclick",
        "<style",
        "javascript:",
        "http://",
        "https://",
    ] {
        assert!(!document.contains(inline), "{inline}");
    }
    for dangerous in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
        "document.write",
    ] {
        assert!(!code.contains(dangerous), "{dangerous}");
    }
    let lines = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    let visit = get_with(server.http_address().unwrap(), "/", lines);
    assert_eq!(visit.status, 200, "a link leads to it");
}

#[test]
fn every_response_has_security_headers() {
    let server = server();
    for path in ["/", "/page.js", "/metrics", "/healthz", "/nothing"] {
        let reply = get(&server, path);
        let policy = reply.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(
            reply.header("cross-origin-opener-policy"),
            Some("same-origin")
        );
        assert_eq!(
            reply.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
}
