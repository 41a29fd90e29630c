"""All groups of options, and the files and engines that their servers share."""

from functools import cached_property
from types import SimpleNamespace

import access_options
import engine
import engine_options
import local_options
from authority import Authority, Signer
from disk import Disk, library

GROUPS = [*local_options.GROUPS, *access_options.GROUPS, *engine_options.GROUPS]


class Tools:
    """Certificates, keys, engines and brokers of the servers, each created at its first use."""

    def __init__(self, folder):
        self._folder, self._engines = folder, []

    def _made(self, name):
        folder = self._folder / name
        folder.mkdir()
        return folder

    def _begun(self, one):
        self._engines.append(one)
        return one

    @cached_property
    def certificates(self):
        """An authority, and certificates of a server, of a client, and of one that is revoked."""
        authority = Authority(self._made("authority"))
        server, client, revoked = (authority.issue(name) for name in ("localhost", "pump-7", "pump-8"))
        authority.revoke(revoked[0])
        return SimpleNamespace(authority=authority, server=server, client=client, revoked=revoked)

    @cached_property
    def signer(self):
        return Signer(self._made("signer"))

    @cached_property
    def stranger(self):
        return Signer(self._made("stranger"))

    @cached_property
    def _disk_library(self):
        return library(self._folder)

    def disk(self, folder):
        return Disk(self._disk_library, folder)

    @cached_property
    def redis(self):
        return self._begun(engine.Redis())

    @cached_property
    def secure_redis(self):
        return self._begun(engine_options.SecureRedis(self.certificates))

    @cached_property
    def secure_etcd(self):
        return self._begun(engine_options.SecureEtcd(self.certificates))

    @cached_property
    def mosquitto(self):
        return self._begun(engine_options.GuardedMosquitto(self.certificates))

    def end(self):
        for one in self._engines:
            one.kill() if one is self.__dict__.get("mosquitto") else one.end()
