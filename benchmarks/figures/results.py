"""What a benchmark kept: a line of JSON on how it was measured, and one for each table, with every number of every round."""

import json
import re
import statistics
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spread:
    """The median of the rounds, with the lowest and the highest."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, rounds: list[float]) -> "Spread":
        return cls(statistics.median(rounds), min(rounds), max(rounds))

    def text(self, decimals: int, unit: str = "") -> str:
        median, lowest, highest = (f"{number:,.{decimals}f}" for number in (self.median, self.lowest, self.highest))
        return f"{median} ({lowest}–{highest}){' ' if unit else ''}{unit}"


@dataclass(frozen=True)
class Column:
    name: str
    unit: str
    decimals: int


@dataclass(frozen=True)
class Table:
    """Rows that were measured in turns: for each row and column the numbers of all rounds."""

    title: str
    columns: list[Column]
    rows: dict[str, list[list[float]]]
    # A name, and the two rows of which one is divided by the other.
    ratios: list[tuple[str, str, str]]

    @classmethod
    def read(cls, kept: dict) -> "Table":
        rows = {row["name"]: row["measured"] for row in kept["rows"]}
        if len(rows) != len(kept["rows"]):
            raise ValueError(f"two rows of {kept['title']!r} have one name")
        ratios = [(ratio["name"], ratio["one"], ratio["other"]) for ratio in kept["ratios"]]
        return cls(kept["title"], [Column(**column) for column in kept["columns"]], rows, ratios)

    @property
    def rounds(self) -> int:
        return len(next(iter(self.rows.values()))[0])

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def spread(self, row: str, column: str) -> Spread:
        return Spread.of(self.rows[row][self.columns.index(self.column(column))])

    def markdown(self) -> str:
        lines = ["| | " + " | ".join(column.name for column in self.columns) + " |", "|" + " --- |" * (len(self.columns) + 1)]
        for name, measured in self.rows.items():
            cells = [Spread.of(rounds).text(column.decimals, column.unit) for column, rounds in zip(self.columns, measured, strict=True)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        for name, one, other in self.ratios:
            cells = [self._ratio(*both) for both in zip(self.rows[one], self.rows[other], strict=True)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    @staticmethod
    def _ratio(one: list[float], other: list[float]) -> str:
        # Nothing is so and so many times as much as nothing.
        if not all(other):
            return "–"
        return Spread.of([a / b for a, b in zip(one, other, strict=True)]).text(2)


@dataclass(frozen=True)
class Results:
    """A file of them."""

    about: dict
    tables: list[Table]

    @classmethod
    def read(cls, path: Path) -> "Results":
        about, *tables = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return cls(about, [Table.read(table) for table in tables])

    def matching(self, pattern: str) -> list[tuple[re.Match, Table]]:
        """The tables with such a title."""
        found = [(match, table) for table in self.tables if (match := re.fullmatch(pattern, table.title))]
        if not found:
            raise ValueError(f"the results have no table {pattern!r}; they have {[table.title for table in self.tables]}")
        return found

    def caption(self, tables: list[Table], lasts: bool) -> str:
        """On what, when, of what, and how often it was measured, and how long a round lasts if that was chosen."""
        about, rounds = self.about, sorted({table.rounds for table in tables})
        times = f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else str(rounds[0])
        of = f"server {about['server']}; client and load {about['commit']}" if about["server"] else f"commit {about['commit']}"
        length = f" of {about['seconds']} s" if lasts else ""
        return f"{about['machine']}, {about['system']} · {about['date']} · {of} · medians of {times} rounds{length}, whiskers from the lowest to the highest"
