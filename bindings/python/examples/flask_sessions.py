"""Sessions of a web application in the store: every process that serves the application sees them.

    pip install flask
    python flask_sessions.py [PORT]

A session expires 30 minutes after its last request. The cookie has only its random id. STATESTORE_URL is the address of the server.

A server that forks, such as gunicorn, calls `create_app` in each worker: a connection cannot be taken along.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from typing import Any

from flask import Flask, Request, Response, session
from flask.sessions import SessionInterface, SessionMixin
from werkzeug.serving import make_server

import statestore

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{43}")
LIFETIME = 30 * 60


class StoredSession(dict[str, Any], SessionMixin):
    """The values of a session, and its id."""

    def __init__(self, session_id: str, stored: bytes | None) -> None:
        super().__init__(json.loads(stored) if stored else {})
        self.session_id = session_id
        self.stored = stored


class StoreSessions(SessionInterface):
    """Keeps each session in a key of the store, as JSON."""

    def __init__(self, client: statestore.Client) -> None:
        self.client = client

    def open_session(self, app: Flask, request: Request) -> StoredSession:
        session_id = request.cookies.get(self.get_cookie_name(app), "")
        # The cookie is what a browser sent. An id that the store does not know is never taken over.
        if SESSION_ID.fullmatch(session_id):
            entry = self.client.get(f"session/{session_id}")
            if entry is not None:
                return StoredSession(session_id, entry.value)
        return StoredSession(secrets.token_urlsafe(32), None)

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        assert isinstance(session, StoredSession)
        key, name = f"session/{session.session_id}", self.get_cookie_name(app)
        if not session:
            if session.stored:
                self.client.delete(key)
                response.delete_cookie(name)
            return
        values = json.dumps(session, sort_keys=True).encode()
        if values == session.stored:
            self.client.touch(key, LIFETIME)
        else:
            self.client.set(key, values, expires_in=LIFETIME)
        response.set_cookie(name, session.session_id, max_age=LIFETIME, httponly=True, samesite="Lax", secure=self.get_cookie_secure(app))


def create_app(client: statestore.Client) -> Flask:
    app = Flask(__name__)
    app.session_interface = StoreSessions(client)

    @app.get("/")
    def visit() -> str:
        session["visits"] = session.get("visits", 0) + 1
        return f"visit {session['visits']}\n"

    @app.get("/visits")
    def show() -> str:
        return f"{session.get('visits', 0)} visits\n"

    @app.post("/logout")
    def logout() -> str:
        session.clear()
        return "bye\n"

    return app


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    # While the store is away, requests fail at once instead of piling up.
    with statestore.connect(url, fail_fast=True) as client:
        server = make_server("127.0.0.1", port, create_app(client), threaded=True)
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        # Ctrl-C ends it.
        server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
