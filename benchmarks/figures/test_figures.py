"""Pictures drawn of a few results are well-formed and show them. Run by `python3 -m unittest discover benchmarks/figures`."""

import math
import re
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from figure import FIGURES
from page import measurements, placed
from results import Results, Spread

FIXTURE = Results.read(Path(__file__).with_name("fixture.jsonl"))
SVG = "{http://www.w3.org/2000/svg}"
LETTERS = {"k": 1e3, "M": 1e6}


def figure(name):
    return next(one for one in FIGURES if one.name == name)


def number(text):
    """What a tick of an axis says."""
    return float(text.rstrip("kM")) * LETTERS.get(text[-1], 1)


class Picture:
    """One, to be read again by its axes."""

    def __init__(self, name):
        self.root = ElementTree.fromstring(figure(name).draw(FIXTURE))
        self.texts = [text.text for text in self.root.iter(f"{SVG}text")]

    def of(self, tag, kind):
        return [it for it in self.root.iter(SVG + tag) if it.get("class") == kind]

    def scales(self):
        """For each vertical axis, where the numbers beside it are."""
        axes, axis = [], {}
        for text in self.root.iter(f"{SVG}text"):
            if text.get("text-anchor") == "end" and re.fullmatch(r"[\d.]+[kM]?", text.text):
                value = number(text.text)
                if axis and value <= max(axis):
                    axes.append(axis)
                    axis = {}
                # It stands a little below its line.
                axis[value] = float(text.get("y")) - 4
        return [*axes, axis]


def read(axis, place):
    """The number at a place of an axis."""
    (low, first), *_, (high, last) = sorted(axis.items())
    # One that does not begin at zero has powers of ten.
    part = (place - first) / (last - first)
    return low + part * (high - low) if low == 0 else math.exp(math.log(low) + part * math.log(high / low))


class Figures(unittest.TestCase):
    def test_every_picture_tells_what_it_is_of(self):
        for one in FIGURES:
            with self.subTest(one.name):
                picture = Picture(one.name)
                told = " ".join(picture.texts)
                for part in (one.title, "A <small> machine, 2 cores, 4 GiB, Linux 6.1", "1 January 2026", "server 9876fed, trained", "0123abc"):
                    self.assertIn(part, told)
                length = "" if one.name == "memory" else " of 0.3 s"
                self.assertIn(f"medians of 3 rounds{length}, whiskers from the lowest to the highest", told)
                for name in one.names.values():
                    self.assertIn(name, picture.texts)
                self.assertEqual(picture.root.find(f"{SVG}title").text, one.title)

    def test_axes_have_units(self):
        self.assertLessEqual({"p50 (µs)", "p99 (µs)", "in flight on one connection"}, set(Picture("latency").texts))
        self.assertLessEqual({"server CPU per request (µs)", "connections"}, set(Picture("connections").texts))

    def test_lines_stand_where_the_medians_are(self):
        picture = Picture("latency")
        p50, p99 = picture.scales()
        wanted = [spread.median for column in ("p50", "p99") for spread in spreads("own client", column)]
        # The first circle is the one of the legend.
        marks = [float(mark.get("cy")) for mark in picture.of("circle", "s0")][1:]
        shown = [read(axis, mark) for axis, mark in zip((p50, p50, p99, p99), marks, strict=True)]
        for one, other in zip(shown, wanted, strict=True):
            self.assertAlmostEqual(one / other, 1, delta=0.02)

    def test_whiskers_end_at_the_lowest_and_the_highest(self):
        picture = Picture("latency")
        axis = picture.scales()[0]
        whisker = re.fullmatch(r"M\S+ (\S+)h8M\S+ \S+V(\S+)M.*", picture.of("path", "spread s0")[0].get("d"))
        spread = spreads("own client", "p50")[0]
        for place, wanted in zip(whisker.groups(), (spread.lowest, spread.highest), strict=True):
            self.assertAlmostEqual(read(axis, float(place)) / wanted, 1, delta=0.02)

    def test_bars_are_as_high_as_the_medians(self):
        picture = Picture("throughput-servers")
        axis = picture.scales()[0]
        tables = [table for table in FIXTURE.tables if table.title.startswith("Bare sockets") and "by number" not in table.title]
        wanted = [table.spread("statestored", "req/s").median for table in tables]
        for bar, median in zip(picture.of("rect", "bar s0"), wanted, strict=True):
            self.assertAlmostEqual(read(axis, float(bar.get("y"))) / median, 1, delta=0.02)
            self.assertAlmostEqual(float(bar.get("y")) + float(bar.get("height")), axis[0], delta=0.2)

    def test_nothing_lies_outside(self):
        for one in FIGURES:
            with self.subTest(one.name):
                root = Picture(one.name).root
                width, height = (float(it) for it in root.get("viewBox").split()[2:])
                places = [(float(it.get("x", 0)), float(it.get("y", 0))) for it in root.iter() if it.tag in (f"{SVG}text", f"{SVG}rect")]
                self.assertTrue(all(0 <= x <= width and 0 <= y <= height for x, y in places))

    def test_results_that_lack_a_table_or_a_row_are_refused(self):
        lacking = Results(FIXTURE.about, [table for table in FIXTURE.tables if "Memory" not in table.title])
        with self.assertRaisesRegex(ValueError, "no table 'Memory"):
            figure("memory").draw(lacking)
        for table in (table for table in lacking.tables if "by number of connections" in table.title):
            for row in [row for row in table.rows if row.startswith("Redis")]:
                del table.rows[row]
        with self.assertRaisesRegex(ValueError, "connections has"):
            figure("connections").draw(lacking)

    def test_a_table_is_the_one_that_the_benchmark_prints(self):
        table = FIXTURE.tables[0].markdown().splitlines()
        self.assertEqual(table[0], "| | req/s | p50 | p99 | server CPU per request |")
        self.assertEqual(table[2], "| own client | 76,923 (69,231–84,615) | 13 (12–14) µs | 32 (29–36) µs | 0.80 (0.72–0.88) µs |")
        self.assertEqual(table[-1].split(" | ")[0:2], ["| own client / vendor's", "5.00 (5.00–5.00)"])

    def test_only_what_is_between_the_comments_changes(self):
        page = "before\n<!-- scripts/bench: memory -->\nold\n<!-- scripts/bench: end -->\nafter\n"
        new = placed(page, figure("memory"))
        self.assertTrue(new.startswith("before\n") and new.endswith("\nafter\n"))
        self.assertIn("(images/figures/memory.svg)", new)
        self.assertNotIn("old", new)
        self.assertEqual(placed(new, figure("memory")), new)

    def test_the_tables_are_on_a_page_of_their_own_once(self):
        self.assertIn("| own client |", measurements([(figure("latency"), FIXTURE)]))
        self.assertIn("| statestored, 1000 keys | 301 (300–302) |", measurements([(figure("memory"), FIXTURE)]))
        self.assertNotIn("|", measurements([(figure("throughput-clients"), FIXTURE)]))



def spreads(row, column):
    tables = [table for table in FIXTURE.tables if re.fullmatch(figure("latency").pattern, table.title)]
    return [Spread.of(table.rows[row][[it.name for it in table.columns].index(column)]) for table in tables]


if __name__ == "__main__":
    unittest.main()
