"""A setting that other programs follow: the speed of a line.

    python follow_setting.py          follows the setting until Ctrl-C
    python follow_setting.py SPEED    changes it

STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import os
import sys

import statestore

KEY = "line-1/speed"
DEFAULT = 60


class Line:
    """The machine that the setting controls."""

    def __init__(self) -> None:
        self.speed: int | None = None

    def apply(self, text: str | None) -> None:
        """Applies the value of the setting; `None` if it is not set. A value that is no number changes nothing."""
        try:
            speed = DEFAULT if text is None else int(text)
        except ValueError:
            print(f"{KEY} is {text!r}, which is no number", file=sys.stderr)
            return
        if speed != self.speed:
            self.speed = speed
            print(f"the line runs at {speed}", flush=True)


def follow(client: statestore.Client[str]) -> None:
    line = Line()
    # Observes first and reads then, so that no change between the two is missed.
    with client.observe(KEY) as changes:
        entry = client.get(KEY)
        line.apply(None if entry is None else entry.value)
        for change in changes:
            match change:
                case statestore.Set(value=value):
                    line.apply(value)
                case statestore.Deleted():
                    line.apply(None)
                case _:
                    pass  # The connection was lost. An observation of the present value follows.


def main() -> None:
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url, encoding="utf-8") as client:
        if len(sys.argv) > 1:
            client.set(KEY, str(int(sys.argv[1])))
        else:
            follow(client)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
