"""A certificate authority, and keys that sign tokens, made with the program ``openssl``."""

import base64
import json
import subprocess
import time

from server import HANG_TIMEOUT

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments, **how):
    """Runs the program; returns its standard output."""
    command = ["openssl", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, timeout=HANG_TIMEOUT, **how).stdout


class Authority:
    """An authority in a folder. Files in PEM: ``ca`` is its certificate, ``crl`` its list of revoked certificates."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.crl = folder / "ca.pem", folder / "crl.pem"
        self._index = folder / "index"
        self._index.write_text("")
        for name in ("serial", "crlnumber"):
            (folder / name).write_text("01\n")
        self._config = folder / "ca.cnf"
        self._config.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={self._index}\nserial={folder}/serial\nnew_certs_dir={folder}\n"
            "default_md=sha256\ndefault_days=2\ndefault_crl_days=2\npolicy=names\nunique_subject=no\n"
            f"crlnumber={folder}/crlnumber\ncrl_extensions=list\n[list]\nauthorityKeyIdentifier=keyid:always\n"
            "[names]\ncommonName=supplied\n[end]\nbasicConstraints=critical,CA:FALSE\n"
            "subjectAltName=DNS:localhost,IP:127.0.0.1\n"
        )
        openssl("req", "-x509", *KEY, "-keyout", folder / "ca.key", "-out", self.ca, "-days", 2, "-subj", "/CN=authority")

    def issue(self, name, *dates):
        """The files of a new certificate with this common name, and of its key; ``dates`` are those of ``openssl ca``."""
        certificate, key, request = (self.folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        openssl("req", "-new", *KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        self._ca("-batch", "-notext", "-in", request, "-out", certificate, "-extensions", "end", *dates)
        return certificate, key

    def issue_expired(self, name):
        """The same for a certificate that has expired."""
        return self.issue(name, "-startdate", "20200101000000Z", "-enddate", "20200102000000Z")

    def revoke(self, certificate):
        """Revokes it, and writes the list anew."""
        self._ca("-revoke", certificate)
        self._ca("-gencrl", "-out", self.crl)

    def _ca(self, *arguments):
        openssl("ca", "-config", self._config, "-cert", self.ca, "-keyfile", self.folder / "ca.key", *arguments)


def _base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """An RSA key that signs tokens; ``jwks`` is the file with its public half."""

    def __init__(self, folder):
        self._key, self.jwks = folder / "signer.key", folder / "jwks.json"
        openssl("genrsa", "-out", self._key, 2048)
        modulus = openssl("rsa", "-in", self._key, "-noout", "-modulus").decode().strip().removeprefix("Modulus=")
        key = {"kty": "RSA", "kid": "one", "n": _base64(bytes.fromhex(modulus)), "e": "AQAB"}
        self.jwks.write_text(json.dumps({"keys": [key]}))

    def token(self, issuer, audience, lives=3_600):
        """A token that expires in so many seconds."""
        now = int(time.time())
        claims = {"iss": issuer, "aud": [audience], "sub": "system:serviceaccount:a:b", "nbf": now - 3_600, "exp": now + lives}
        header = {"alg": "RS256", "kid": "one"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        signature = openssl("dgst", "-sha256", "-sign", self._key, input=signed.encode())
        return f"{signed}.{_base64(signature)}".encode()
