"""A reload by SIGHUP gives each option that it applies its effect, and names the others."""

import socket

import pytest

import optioned
from access_options import NOT_AUTHORIZED, Certificates, CertificatesOrPasswords, HttpCertificates, OneUser, SignedTokens, refusal
from authority import Authority
from local_options import Audit, ByteRate, ClientLimits, Process, RequestRate, StoreLimits
from option_group import Group
from option_groups import GROUPS
from server import lacks

# Values of before the reload; without one (None), the option is absent.
BEFORE = {
    OneUser: {"user": "bob", "password-file": "other-password", "policy-file": None, "limit-user": None},
    SignedTokens: {"jwks-file": None, "jwt-issuer": "https://other.example", "jwt-audience": ["else"], "jwt-leeway": None},
    Certificates: {"tls-cert": None, "tls-key": None, "tls-client-ca": None, "tls-client-crl": None},
    CertificatesOrPasswords: {"tls-client-cert": None, "tls-user": None, "users-file": "other-users"},
    HttpCertificates: {"http-tls-cert": None, "http-tls-key": None, "http-tls-client-ca": None},
    StoreLimits: {"max-keys": None, "max-bytes": None, "limit-prefix": None, "max-watches": None, "max-session-bytes": None},
    ClientLimits: {"max-connections": None, "max-sessions": None, "max-packet-bytes": None},
    RequestRate: {"max-request-rate": None},
    ByteRate: {"max-byte-rate": None},
    Audit: {"audit-keys": None, "audit-rate": 0, "slow-request": None},
    Process: {"log": "warn", "http-token-file": "other-token", "http-read-token-file": None, "http-metrics-token-file": None},
}
TABLE = [(group, option) for group, options in BEFORE.items() for option in options]
RELOADED = {option for _, option in TABLE}


def former(group, option):
    """Returns the options of before the reload, in which this option differs."""
    options, value = dict(group.given), BEFORE[type(group)][option]
    if option.endswith(("tls-cert", "tls-key")):
        # A certificate and its key change together.
        folder = group.folder / "other-authority"
        folder.mkdir()
        port = "http-" if option.startswith("http-") else ""
        options[f"{port}tls-cert"], options[f"{port}tls-key"] = Authority(folder).issue("localhost")
    elif option == "tls-client-ca":
        # The list of revoked certificates needs an authority.
        del options[option], options["tls-client-crl"]
    elif option == "jwks-file":
        options[option] = group.tools.stranger.jwks
    elif value is None:
        del options[option]
    else:
        options[option] = value
    for name, text in [("other-password", "wrong\n"), ("other-users", "bob:secret\n"), ("other-token", "a-token-of-a-former-one\n")]:
        if value == name:
            options[option] = group.folder / name
            options[option].write_text(text)
    return options


@pytest.mark.parametrize("kind, option", TABLE, ids=[option for _, option in TABLE])
def test_a_reload_gives_an_option_its_effect(kind, option, tools, tmp_path, monkeypatch):
    group = kind("file", tmp_path, tools)
    group.start_with(former(group, option))
    has_effect = getattr(group, option.replace("-", "_"))
    try:
        with monkeypatch.context() as patch:
            # An effect that does not come is not waited for as long.
            patch.setattr(optioned, "LONG", 1)
            with pytest.raises(AssertionError):
                has_effect()
        group.settle()
        assert group.reload() == []
        has_effect()
        group.settle()
    finally:
        group.end()


@pytest.mark.parametrize("kind", GROUPS, ids=[kind.__name__ for kind in GROUPS])
def test_a_reload_names_the_options_that_it_does_not_apply(kind, tools, tmp_path):
    if kind.engine and lacks(kind.engine):
        pytest.skip(f"the server was built without {kind.engine}")
    group = kind("file", tmp_path, tools)
    before = {"listen": ["tcp://127.0.0.1:0"], "http": "http://127.0.0.1:0", "storage": "memory"}
    group.start_with(before)
    try:
        changed = {name for name in before | group.given if before.get(name) != group.given.get(name)}
        assert group.reload() == sorted(changed - RELOADED)
    finally:
        group.end()


class SignedRequests(Group):
    """A policy and the identity that it needs behind a broker, which does not answer."""

    def options(self):
        self.broker = socket.create_server(("127.0.0.1", 0))
        policy, key = self.folder / "policy.yaml", self.folder / "key"
        policy.write_text("rules: []\n")
        key.write_text("0123456789abcdef0123456789abcdef\n")
        attach = f"mqtt://127.0.0.1:{self.broker.getsockname()[1]}"
        return {"attach": attach, "attach-identity": "sender", "attach-identity-key": key, "policy-file": policy}

    def end(self):
        super().end()
        self.broker.close()


@pytest.mark.parametrize("is_added", [True, False], ids=["added", "removed"])
def test_a_policy_and_the_identity_that_it_needs_take_effect_together(is_added, tools, tmp_path):
    group = SignedRequests("file", tmp_path, tools)
    together = {"attach-identity", "attach-identity-key", "policy-file"}
    alone = {name: value for name, value in group.given.items() if name not in together}
    before, group.given = (alone, group.given) if is_added else (group.given, alone)
    group.start_with(before)
    try:
        # Without a policy, the listener of the server is open; this policy allows nothing.
        in_force = None if is_added else NOT_AUTHORIZED
        assert refusal(lambda: group.server.peer("before")) == in_force
        group.settle()
        needs_restart = group.reload()
        assert refusal(lambda: group.server.peer("after")) == in_force
        assert needs_restart == sorted(together)
    finally:
        group.end()
