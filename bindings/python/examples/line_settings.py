"""The settings of a line: other programs change them, and the line follows all keys of their folder.

    python line_settings.py               follows the settings until Ctrl-C
    python line_settings.py NAME VALUE    changes one

STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import os
import sys

import statestore

FOLDER = "line-1/settings/"
DEFAULTS = {"pressure": 5, "speed": 60}


class Line:
    """The machine that the settings control."""

    def __init__(self) -> None:
        self.settings = dict(DEFAULTS)
        self.used: dict[str, int] | None = None

    def apply(self, key: str, text: str | None) -> None:
        """Applies the value of a setting; `None` if it is not set. A value that is no number changes nothing."""
        name = key.removeprefix(FOLDER)
        if name not in DEFAULTS:
            return
        try:
            self.settings[name] = DEFAULTS[name] if text is None else int(text)
        except ValueError:
            print(f'{key} is "{text}", which is no number', file=sys.stderr)

    def run(self) -> None:
        """Runs with the settings from now on."""
        if self.used != self.settings:
            self.used = dict(self.settings)
            print("the line runs with", ", ".join(f"{name} {number}" for name, number in self.used.items()), flush=True)


def follow(client: statestore.Client[str]) -> None:
    line = Line()
    is_complete = False
    with client.observe_matching(f"{FOLDER}*") as changes:
        for change in changes:
            match change:
                case statestore.MatchSet(key=key, value=value):
                    line.apply(key, value)
                case statestore.MatchDeleted(key=key):
                    line.apply(key, None)
                case statestore.Resync():
                    # Changes may have been missed. The differences follow, and the line waits for all of them.
                    is_complete = False
                case statestore.Complete() | statestore.Resynced():
                    is_complete = True
            if is_complete:
                line.run()


def main() -> None:
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url, encoding="utf-8") as client:
        if len(sys.argv) > 2:
            client.set(FOLDER + sys.argv[1], sys.argv[2])
        else:
            follow(client)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
