"""A server in a drill: each sign has to be there within the seconds after a fault, or its end, that ``docs/drills.md`` names."""

import json
import time

from optioned import Served
from store import array, timestamp

# Signs that follow from what the server sees itself.
SOON = 5
# Signs that need an answer that does not come, or a retry.
LATER = 15
TOKEN = "0123456789abcdef0123456789abcdef"


class Drilled(Served):
    """A server with an HTTP port, whose signs are read where an operator reads them."""

    def __init__(self, folder, environment=None, **options):
        options = {name.replace("_", "-"): value for name, value in options.items()}
        if not {"storage", "data-dir"} & options.keys():
            options["storage"] = "memory"
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        base = {"listen": ["tcp://127.0.0.1:0"], "http": "http://127.0.0.1:0", "http-token-file": token}
        self._since = time.monotonic()
        super().__init__("flag", {**base, **options}, folder, environment)

    def disturb(self, change, *arguments, **options):
        """Makes or ends a fault, from which on the seconds of the signs count. Returns what ``change`` returns."""
        self._since = time.monotonic()
        return change(*arguments, **options)

    def within(self, seconds, what, is_so):
        """Waits until ``is_so()``; fails with ``what`` so many seconds after the change."""
        while not is_so():
            assert time.monotonic() - self._since < seconds, f"not within {seconds} s: {what}"
            time.sleep(0.02)
        took = time.monotonic() - self._since
        assert took < seconds, f"{what} took {took} s"
        print(f"{what}: {took:.2f} s")

    def api(self, path):
        """What the page, ``statestore top`` and ``statestore admin`` read."""
        status, text = self.request("GET", f"/api/{path}", {"Authorization": f"Bearer {TOKEN}"})
        assert status == 200, text
        return json.loads(text)

    def logs(self, seconds, *texts):
        """Waits for a line with all of these."""
        self.within(seconds, f"the log has {texts}", lambda: any(all(text in line for text in texts) for line in self.log().splitlines()))

    def audits(self, seconds, event, **fields):
        """Waits for a line in the log, and in the audit trail of the page and of ``statestore admin audit``."""
        self.logs(seconds, f'event="{event}"', *(f'{name}="{value}"' for name, value in fields.items()))
        trail = self.api(f"audit?event={event}")["items"]
        assert any(all(it["fields"].get(name) == value for name, value in fields.items()) for it in trail)

    def shows(self, seconds, name, value):
        """Waits for a metric."""
        self.within(seconds, f"{name} is {value}", lambda: self.metric(f"statestored_{name}") == value)

    def is_ready(self, seconds, warning=None):
        """Waits until it is ready, with this warning or none."""
        codes = [] if warning is None else [warning]

        def is_so():
            status, body = self.request("GET", "/readyz")
            first, *others = body.splitlines()
            return (status, first) == (200, "ready") and [line.partition(":")[0] for line in others] == codes

        self.within(seconds, "/readyz is ready", is_so)
        assert self.api("status")["reasons"] == []

    def is_unready(self, seconds, reason):
        """Waits until it is not ready for this reason, which the page and ``statestore top`` show."""
        self.within(seconds, f"/readyz has {reason}", lambda: self.has_reason(503, f"not ready\n{reason}: "))
        self.within(seconds, f"/api/status has {reason}", lambda: reason in [it["code"] for it in self.api("status")["reasons"]])

    def warns(self, seconds, warning):
        """Waits until it is ready with this warning, which the page shows."""
        self.within(seconds, f"/readyz warns of {warning}", lambda: self.has_reason(200, f"\n{warning}: "))
        assert warning in [it["code"] for it in self.api("status")["warnings"]]

    def has_reason(self, status, text):
        found, body = self.request("GET", "/readyz")
        return found == status and text in body

    def refuses(self, seconds, cause, **fields):
        """Waits for a refusal in the log, then looks for it in the metric, the number of ``statestore top`` and the list."""
        self.logs(seconds, f'cause="{cause}"', *(f'{name}="{value}"' for name, value in fields.items() if name != "peer"))
        assert self.metric(f'statestored_refusals_total{{cause="{cause}"}}') > 0
        assert self.api("status")["counts"]["refused"] > 0
        assert any(
            it["cause"] == cause and all(it[name] == value for name, value in fields.items()) for it in self.api("refusals")["items"]
        )


def set_key(store, key, value="v"):
    """The reply to a SET with the time of this machine."""
    return store.request(array("SET", key, value), ts=timestamp()).payload
