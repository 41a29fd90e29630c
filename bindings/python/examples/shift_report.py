"""Typed records in the store, and figures about them, with the standard library only.

    python shift_report.py STATION GOOD REJECTED      records a count of pieces
    python shift_report.py                            prints the report of all stations

A record that is not understood is named and left out. STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Generic, Protocol, TypeVar

import statestore


class Record(Protocol):
    """A record that can be stored."""

    def dumps(self) -> str: ...


R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Count:
    """The pieces of a station in one shift."""

    good: int
    rejected: int

    def __post_init__(self) -> None:
        for value in (self.good, self.rejected):
            if type(value) is not int or value < 0:
                raise ValueError(f"{value!r} is no number of pieces")

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Count:
        """Raises `ValueError` if the text is not a count."""
        match json.loads(text):
            case {"good": int(good), "rejected": int(rejected)}:
                return cls(good, rejected)
            case _:
                raise ValueError(f"{text} is no count")

    @property
    def reject_rate(self) -> float:
        pieces = self.good + self.rejected
        return self.rejected / pieces if pieces else 0.0


class Records(Generic[R]):
    """Records of one type, below a prefix of keys. ``loads`` raises `ValueError` for what it does not understand."""

    def __init__(self, client: statestore.Client[str], prefix: str, loads: Callable[[str], R]) -> None:
        self._client = client
        self._prefix = prefix
        self._loads = loads

    def put(self, name: str, record: R) -> None:
        self._client.set(self._prefix + name, record.dumps())

    def __iter__(self) -> Iterator[tuple[str, R]]:
        """Reads all records, many with each request."""
        for key, entry in self._client.scan_entries(f"{self._prefix}*", fallback=True):
            try:
                yield key.removeprefix(self._prefix), self._loads(entry.value)
            except ValueError as error:
                print(f"{key} is left out: {error}", file=sys.stderr)


def report(counts: dict[str, Count]) -> Iterator[str]:
    """Returns the lines of the report."""
    for station, count in sorted(counts.items()):
        yield f"{station:<12}{count.good:>8}{count.rejected:>8}{count.reject_rate:>8.1%}"
    if counts:
        yield f"median of the reject rates: {statistics.median(count.reject_rate for count in counts.values()):.1%}"


def main(arguments: list[str]) -> None:
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url, encoding="utf-8") as client:
        counts = Records(client, "line-1/shift/", Count.loads)
        match arguments:
            case [station, good, rejected]:
                counts.put(station, Count(int(good), int(rejected)))
            case []:
                for line in report(dict(counts)):
                    print(line)
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, statestore.StateStoreError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
