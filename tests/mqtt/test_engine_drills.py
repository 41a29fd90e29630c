"""The drills of ``docs/drills.md`` with an etcd below the server."""

import shutil
import signal
import tempfile
import time
from types import SimpleNamespace

import pytest

import engine
from authority import Authority
from drill import LATER, SOON, Drilled, set_key
from engine_options import SecureEtcd

OK = b"+OK\r\n"


class Member(engine.Etcd):
    """A member of a cluster whose members and ports are known."""

    def __init__(self, number, ports):
        self._number, self._ports = number, ports
        self.arguments, self.folder = (), tempfile.mkdtemp(prefix="etcd-")
        self.port = ports[number][0]

    def command(self):
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[self._number])
        members = ",".join(f"m{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(self._ports))
        return [
            "etcd", f"--name=m{self._number}", f"--data-dir={self.folder}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={members}",
        ]  # fmt: skip


class Members:
    """An etcd of three members."""

    def __init__(self):
        ports = [(engine.free_port(), engine.free_port()) for _ in range(3)]
        self.members = [Member(number, ports) for number in range(3)]
        for member in self.members:
            member.spawn()
        assert all(member.listens() for member in self.members)

    def storage(self, prefix):
        return f"etcd://{','.join(f'127.0.0.1:{member.port}' for member in self.members)}/{prefix}"

    def leader(self):
        """The member that leads."""
        states = [member.ask("maintenance/status") for member in self.members]
        return next(member for member, state in zip(self.members, states, strict=True) if state["leader"] == state["header"]["member_id"])

    def end(self):
        for member in self.members:
            member.end()


@pytest.fixture
def begin():
    """Starts engines, and servers over them."""
    begun = []

    def begin(kind, *arguments, **options):
        begun.append(kind(*arguments, **options))
        return begun[-1]

    yield begin
    for one in reversed(begun):
        one.close() if isinstance(one, Drilled) else one.end()


def is_away(server, seconds):
    """Waits for the signs of an engine that does not answer."""
    server.is_unready(seconds, "storage_away")
    server.shows(seconds, "engine_away", 1)
    server.logs(seconds, "ERROR", "the storage does not answer: requests are rejected until it does")
    assert not server.api("status")["engine"]["is_available"]


def is_back(server, warning=None):
    """Waits until service resumes by itself, with this warning or none."""
    server.is_ready(LATER, warning)
    server.shows(LATER, "engine_away", 0)
    assert server.api("status")["engine"]["is_available"]
    # The first line is that of the start.
    server.within(LATER, "the return is logged", lambda: server.log().count("the storage answers, and all changes are known") == 2)
    assert server.store("after").reply("GET", "kept") == b"$1\r\nv\r\n"


def test_an_engine_that_is_away(begin, tmp_path):
    etcd = begin(engine.Etcd)
    server = begin(Drilled, tmp_path, storage=etcd.storage("test"))
    assert set_key(server.store(), "kept") == OK
    server.disturb(etcd.kill)
    is_away(server, SOON)
    server.logs(SOON, "a member of etcd is avoided until it answers again")
    server.disturb(etcd.restart)
    is_back(server)


def test_an_engine_that_hangs(begin, tmp_path):
    etcd = begin(engine.Etcd)
    server = begin(Drilled, tmp_path, storage=etcd.storage("test"))
    assert set_key(server.store(), "kept") == OK
    server.disturb(etcd.process.send_signal, signal.SIGSTOP)
    is_away(server, LATER)
    server.disturb(etcd.process.send_signal, signal.SIGCONT)
    is_back(server)


def test_a_member_that_hangs(begin, tmp_path):
    members = begin(Members)
    server = begin(Drilled, tmp_path, storage=members.storage("test"))
    store = server.store()
    assert set_key(store, "kept") == OK
    leader = members.leader()
    server.disturb(leader.process.send_signal, signal.SIGSTOP)
    server.within(LATER, "a change is made", lambda: set_key(store, "k") == OK)
    server.logs(LATER, "WARN", "a member of etcd is avoided until it answers again", f"127.0.0.1:{leader.port}")
    server.shows(LATER, "engine_members_avoided", 1)
    server.is_ready(LATER)
    assert server.metric("statestored_engine_away") == 0
    status = server.api("status")["engine"]
    assert status["is_available"] and status["members"] == {"configured": 3, "avoided": 1}
    leader.process.send_signal(signal.SIGCONT)
    server.shows(LATER, "engine_members_avoided", 0)


def test_most_members_are_away(begin, tmp_path):
    members = begin(Members)
    server = begin(Drilled, tmp_path, storage=members.storage("test"))
    assert set_key(server.store(), "kept") == OK
    for member in members.members[1:]:
        server.disturb(member.kill)
    is_away(server, LATER)
    for member in members.members[1:]:
        server.disturb(member.spawn)
    is_back(server)


def test_an_expired_certificate_of_the_engine(begin, tmp_path):
    authority = Authority(tmp_path)
    server_files, client_files, expired = authority.issue("localhost"), authority.issue("client"), authority.issue_expired("expired")
    etcd = begin(SecureEtcd, SimpleNamespace(authority=authority, server=server_files))
    certificate, key = client_files
    options = {"storage": f"etcds://127.0.0.1:{etcd.port}/test", "etcd_ca": authority.ca, "etcd_cert": certificate, "etcd_key": key}
    server = begin(Drilled, tmp_path, **options)
    assert set_key(server.store(), "kept") == OK
    assert server.metric('statestored_certificate_expiry_timestamp_seconds{listener="etcd"}') > time.time()
    valid = [file.read_bytes() for file in server_files]
    server.disturb(etcd.kill)
    for file, other in zip(server_files, expired, strict=True):
        shutil.copy(other, file)
    etcd.restart()
    is_away(server, SOON)
    server.logs(LATER, "a member of etcd is avoided until it answers again", "certificate expired")
    for file, content in zip(server_files, valid, strict=True):
        server.disturb(file.write_bytes, content)
    # The authority issues certificates for two days.
    is_back(server, "certificate_expires")
    # The certificate that the server shows to etcd.
    server.disturb(shutil.copy, expired[0], certificate)
    server.logs(SOON, "ERROR", "the certificate of this server for its engine or broker has expired", 'peer="etcd"')
    server.warns(SOON, "certificate_expired")
