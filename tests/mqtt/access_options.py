"""Effects of the options of authentication, authorization and TLS, as in ``local_options``."""

import ssl

from option_group import OK, Group, effect
from optioned import trust
from peer import Refused

ISSUER, AUDIENCE = "https://issuer.example", "store"
QUOTA_EXCEEDED, NOT_AUTHORIZED, BAD_USER = 0x97, 0x87, 0x86


def refusal(login):
    """The reason code with which a login is refused; None if it is not."""
    try:
        login()
    except Refused as error:
        return error.code
    return None


class OneUser(Group):
    """One user with a password, a policy and a limit."""

    def options(self):
        password, policy = self.folder / "password", self.folder / "policy.yaml"
        password.write_text("secret\n")
        policy.write_text(
            "rules:\n- principals: {usernames: [ann]}\n  brokerResources: [{method: Connect}, {method: Subscribe, topics: ['#']}]\n"
            "  stateStoreResources: [{method: ReadWrite, keys: [open]}]\n"
        )
        return {"user": "ann", "password-file": password, "policy-file": policy, "limit-user": ["* connections=9", "ann connections=1 subscriptions=1"]}

    @effect
    def user(self):
        assert refusal(lambda: self.server.peer("a", user="bob", password="secret")) == BAD_USER
        assert refusal(lambda: self.server.peer("a", user="ann", password="secret")) is None

    @effect
    def password_file(self):
        assert refusal(lambda: self.server.peer("a", user="ann", password="wrong")) == BAD_USER
        assert refusal(lambda: self.server.peer("a", user="ann", password="secret")) is None

    @effect
    def policy_file(self):
        store = self.server.store(user="ann", password="secret")
        assert store.reply("SET", "open", "v") == OK
        assert store.reply("SET", "closed", "v") == b"-ERR not authorized\r\n"

    @effect
    def limit_user(self):
        peer = self.server.peer("a", user="ann", password="secret")
        assert refusal(lambda: self.server.peer("b", user="ann", password="secret")) == QUOTA_EXCEEDED
        assert peer.subscribe("one/+") == 1
        assert peer.subscribe("two/+") == QUOTA_EXCEEDED


class SignedTokens(Group):
    """Tokens of a service account."""

    def options(self):
        return {"jwks-file": self.tools.signer.jwks, "jwt-issuer": ISSUER, "jwt-audience": ["other", AUDIENCE], "jwt-leeway": "1m"}

    def _login(self, issuer=ISSUER, audience=AUDIENCE, **how):
        token = self.tools.signer.token(issuer, audience, **how)
        return refusal(lambda: self.server.peer("a", AuthenticationMethod="K8S-SAT", AuthenticationData=token))

    @effect
    def jwks_file(self):
        assert self._login() is None
        strange = self.tools.stranger.token(ISSUER, AUDIENCE)
        assert refusal(lambda: self.server.peer("a", AuthenticationMethod="K8S-SAT", AuthenticationData=strange)) == NOT_AUTHORIZED

    @effect
    def jwt_issuer(self):
        assert self._login() is None
        assert self._login(issuer="https://other.example") == NOT_AUTHORIZED

    @effect
    def jwt_audience(self):
        assert self._login(audience="other") is None and self._login() is None
        assert self._login(audience="else") == NOT_AUTHORIZED

    @effect
    def jwt_leeway(self):
        # The leeway is 10 seconds if it is not given.
        assert self._login(lives=-20) is None
        assert self._login(lives=-61) == NOT_AUTHORIZED


class Network(Group):
    """A listener on all addresses, without authentication."""

    def options(self):
        return {"listen": ["tcp://0.0.0.0:0"], "allow-anonymous": True}

    @effect
    def allow_anonymous(self):
        assert self.server.store().reply("SET", "k", "v") == OK


class Certificates(Group):
    """TLS with client certificates, one of them revoked."""

    def options(self):
        self.tls = self.tools.certificates
        certificate, key = self.tls.server
        return {
            "listen": ["tls://127.0.0.1:0"],
            "tls-cert": certificate,
            "tls-key": key,
            "tls-client-ca": self.tls.authority.ca,
            "tls-client-crl": self.tls.authority.crl,
        }

    def _dial(self, files):
        return self.server.dial("client", tls=trust(self.tls.authority, files))[1]

    @effect
    def tls_cert(self):
        assert self._dial(self.tls.client) == 0

    tls_key = tls_cert

    @effect
    def tls_client_ca(self):
        assert self._dial(None) is None

    @effect
    def tls_client_crl(self):
        assert self._dial(self.tls.revoked) is None
        assert self._dial(self.tls.client) == 0


class CertificatesOrPasswords(Group):
    """TLS with optional client certificates, and passwords."""

    def options(self):
        self.tls = self.tools.certificates
        certificate, key = self.tls.server
        users = self.folder / "users"
        users.write_text("ann:secret\n")
        return {
            "listen": ["tls://127.0.0.1:0"],
            "tls-cert": certificate,
            "tls-key": key,
            "tls-client-ca": self.tls.authority.ca,
            "tls-client-cert": "optional",
            "tls-user": "common-name",
            "users-file": users,
        }

    def _dial(self, files, **login):
        return self.server.dial("client", tls=trust(self.tls.authority, files), **login)[1]

    @effect
    def tls_client_cert(self):
        assert self._dial(None, user="ann", password="secret") == 0

    @effect
    def tls_user(self):
        assert self._dial(self.tls.client) == 0

    @effect
    def users_file(self):
        assert self._dial(None, user="ann", password="secret") == 0
        assert self._dial(None, user="ann", password="wrong") == BAD_USER


class HttpCertificates(Group):
    """An HTTP port with TLS, which requires certificates of clients."""

    def options(self):
        self.tls = self.tools.certificates
        certificate, key = self.tls.server
        return {
            "http": "https://127.0.0.1:0",
            "http-tls-cert": certificate,
            "http-tls-key": key,
            "http-tls-client-ca": self.tls.authority.ca,
        }

    def _status(self, files):
        """The status of a request; None if the connection is refused, by either side."""
        try:
            return self.server.request("GET", "/healthz", tls=trust(self.tls.authority, files))[0]
        except (ConnectionError, ssl.SSLError):
            return None

    @effect
    def http_tls_cert(self):
        assert self._status(self.tls.client) == 200

    http_tls_key = http_tls_cert

    @effect
    def http_tls_client_ca(self):
        assert self._status(None) is None
        assert self._status(self.tls.client) == 200

    def settle(self):
        """There are no connections of MQTT."""


GROUPS = [OneUser, SignedTokens, Network, Certificates, CertificatesOrPasswords, HttpCertificates]
