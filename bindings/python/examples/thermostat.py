"""A thermostat that follows its set point.

    python thermostat.py [URL] [--once]

The operator writes the key `room/7/set-point`; the thermostat observes it, and writes what it does to `room/7/heating`.
"""

from __future__ import annotations

import argparse

import statestore
from statestore import Deleted, Lagged, Resync, Set


class Thermostat:
    def __init__(self, client: statestore.Client[str], room: str) -> None:
        self.client = client
        self.room = room
        self.temperature = 18.5

    def set_point(self, target: float) -> None:
        heating = "on" if self.temperature < target else "off"
        self.client.set(f"{self.room}/heating", heating)
        print(f"{self.room}: {self.temperature} °C, wanted {target} °C, heating {heating}")

    def follow(self, most: int | None) -> None:
        with self.client.observe(f"{self.room}/set-point") as changes:
            if most is not None:
                operate(self.client, self.room)
            for observation in changes:
                match observation:
                    case Set(value=value):
                        self.set_point(float(value))
                    case Deleted():
                        self.set_point(5.0)
                    case Resync():
                        print("the connection was lost for a moment")
                    case Lagged():
                        pass
                if isinstance(observation, Deleted) and most is not None:
                    return


def operate(client: statestore.Client[str], room: str) -> None:
    """What an operator elsewhere would do."""
    client.set(f"{room}/set-point", "21.0", expires_in=0.2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default="mqtt://127.0.0.1:1883")
    parser.add_argument("--once", action="store_true", help="end after one set point, which expires")
    arguments = parser.parse_args()
    with statestore.connect(arguments.url, encoding="utf-8") as client:
        Thermostat(client, "room/7").follow(1 if arguments.once else None)


if __name__ == "__main__":
    main()
