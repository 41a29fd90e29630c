"""A scripted peer: a broker with a state store that knows nothing but the golden vectors.

    python3 tests/peer PLAY          plays it to the clients that come, one after another
    python3 tests/peer --plan PLAY   prints as JSON what these clients are to do, and what must come out of it

It listens on a free loopback port and says `listening on tcp://127.0.0.1:PORT`. It ends when its standard input is
closed and the last client has gone, with exit code 1 and the reasons on standard error unless everything came that the
play says, and nothing else. See plays.py for what a play is.
"""

import json
import socket
import sys
import threading
import traceback

import mqtt
import plays
import session


class Peer:
    """Serves the connections of a play in their order."""

    def __init__(self, play):
        self._connections = plays.PLAYS[play]()
        self._next = 0
        self._problems = []
        # Held while a client is there.
        self._busy = threading.Lock()

    def serve(self, listener):
        while True:
            stream, _ = listener.accept()
            with self._busy, stream:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    self._serve(stream)
                except Exception as problem:
                    known = isinstance(problem, session.Refused)
                    self._problems.append(str(problem) if known else traceback.format_exc())

    def _serve(self, stream):
        if self._next == len(self._connections):
            raise session.Refused("expected no further connection")
        connection = self._connections[self._next]
        self._next += 1
        served = session.Session(stream.sendall, connection, self._problems)
        try:
            served.serve(mqtt.packets(stream.makefile("rb")))
        finally:
            self._problems += [f"was never asked for: {name}" for name in served.unasked()]

    def verdict(self):
        """What went wrong, after the last client has gone."""
        with self._busy:
            missing = self._connections[self._next :]
            return self._problems + [f"never came: the client {connection.client_id!r}" for connection in missing]


def main():
    match sys.argv[1:]:
        case ["--plan", play] if play in plays.PLAYS:
            json.dump(plays.plan(play), sys.stdout)
            return 0
        case [play] if play in plays.PLAYS:
            peer = Peer(play)
        case _:
            print(f"usage: python3 tests/peer [--plan] {'|'.join(plays.PLAYS)}", file=sys.stderr)
            return 2
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=peer.serve, args=(listener,), daemon=True).start()
        print(f"listening on tcp://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        sys.stdin.read()
        problems = peer.verdict()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
