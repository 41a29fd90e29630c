"""Which figures there are, and which tables they are drawn from."""

import re
from dataclasses import dataclass

from plot import Panel, Series, draw
from results import Results, Table

ROW_OF_A_NUMBER = r"(?:(.*), )?(\d+) (?:keys|connections)"


@dataclass(frozen=True)
class Lines:
    """A panel with a line for each series: a column of the tables."""

    column: str
    x_name: str
    is_log: bool = False


@dataclass(frozen=True)
class Figure:
    """A picture, and the tables that belong to it."""

    name: str
    title: str
    # Of scripts/bench; the results are kept under its name.
    part: str
    # Titles of the tables. A group in it is the place on the axis, or the name of a group of bars.
    pattern: str
    # The rows that are drawn, and their names in the picture; every row, if there are none.
    names: dict[str, str]
    panels: tuple[Lines, ...] = ()
    # Of bars: their column.
    bars: str = ""
    # Whether a round goes on for a time that was chosen, and not until something is done.
    lasts: bool = True
    # Whether notes/measurements.md has its tables for it; another picture may have the same.
    has_tables: bool = True

    def tables(self, results: Results) -> list[Table]:
        return [table for _, table in results.matching(self.pattern)]

    def draw(self, results: Results) -> str:
        found = results.matching(self.pattern)
        panels = [self._bars(found)] if self.bars else [self._lines(found, lines) for lines in self.panels]
        return draw(self.title, results.caption([table for _, table in found], self.lasts), panels)

    def _bars(self, found: list[tuple[re.Match, Table]]) -> Panel:
        series = [
            Series(name, [(group, table.spread(row, self.bars)) for group, (_, table) in enumerate(found)]) for row, name in self.names.items()
        ]
        return Panel(_with_unit(found[0][1], self.bars), series, groups=[match[1] for match, _ in found])

    def _lines(self, found: list[tuple[re.Match, Table]], lines: Lines) -> Panel:
        points: dict[str, list] = {}
        for match, table in found:
            for row in table.rows:
                name, place = self._place(match, row)
                if name in self.names:
                    points.setdefault(self.names[name], []).append((place, table.spread(row, lines.column)))
        if set(points) != set(self.names.values()):
            raise ValueError(f"{self.name} has {list(points)}, and wants {list(self.names.values())}")
        series = [Series(name, those) for name, those in points.items()]
        return Panel(_with_unit(found[0][1], lines.column), series, lines.x_name, lines.is_log)

    @staticmethod
    def _place(match: re.Match, row: str) -> tuple[str, float]:
        """A row's series, and its place: of the table's title, or else in its own name."""
        if match.groups():
            return row, float(match[1])
        in_row = re.fullmatch(ROW_OF_A_NUMBER, row)
        if not in_row:
            raise ValueError(f"no number in {row!r}")
        return in_row[1] or "", float(in_row[2])


def _with_unit(table: Table, column: str) -> str:
    unit = table.column(column).unit
    return f"{column} ({unit})" if unit else column


CLIENTS = r"(\d+) in flight on one connection, clients with one thread"
PEERS = {"own client": "own client", "vendor's client": "vendor's client", "Redis, bare socket": "bare socket to Redis"}
FIGURES = [
    Figure(
        "latency",
        "Latency by number of requests in flight",
        "clients",
        CLIENTS,
        PEERS,
        panels=(Lines("p50", "in flight on one connection", is_log=True), Lines("p99", "in flight on one connection", is_log=True)),
    ),
    Figure(
        "throughput-clients",
        "Throughput of clients, by number of requests in flight on one connection",
        "clients",
        CLIENTS,
        PEERS,
        bars="req/s",
        has_tables=False,
    ),
    Figure(
        "throughput-servers",
        "Throughput of servers: connections × in flight on each",
        "servers",
        r"Bare sockets, ([^,]* connections?, \d+ in flight)(?: on each)?",
        {"statestored": "statestored, bare sockets", "statestored, own clients": "statestored, own clients", "Redis": "Redis, bare sockets"},
        bars="req/s",
    ),
    Figure(
        "connections",
        "From 1 to 10,000 connections, one request in flight on each",
        "connections",
        r"Bare sockets, 1 in flight on each, by number of connections",
        {"statestored": "statestored", "Redis": "Redis"},
        panels=(Lines("req/s", "connections"), Lines("server CPU per request", "connections")),
    ),
    Figure(
        "memory",
        "Resident memory by number of keys",
        "memory",
        r"Memory by number of keys .*",
        {"statestored": "statestored", "Redis": "Redis"},
        panels=(Lines("resident bytes per key", "keys"),),
        lasts=False,
    ),
    Figure(
        "keys",
        "Cost of a request from 1,000 to 10,000,000 keys",
        "flat",
        r"Cost per operation by number of keys, .*",
        {"": "statestored, own client, 64 in flight"},
        panels=(Lines("server CPU per request", "keys"), Lines("p50", "keys")),
    ),
]
