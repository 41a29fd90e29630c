"""Draws lines and bars with their spread as SVG, for light and dark pages."""

import math
from dataclasses import dataclass, field
from html import escape

from results import Spread

WIDTH, MARGIN, GAP = 800, 16, 24
LEFT, BOTTOM, PLOT_HEIGHT = 58, 44, 250
LETTER = 6.6
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.small { font-size: 10.5px; fill: #57606a }
.page { fill: #ffffff; stroke: #d0d7de }
.axis { stroke: #57606a; fill: none }
.grid { stroke: #d8dee4; fill: none }
.spread { stroke-width: 1.5; fill: none }
.bar, .key { stroke-width: 0; fill-opacity: .75 }
.over { stroke: #24292f; stroke-width: 1.5; fill: none }
.line { stroke-width: 2; fill: none }
.s0 { stroke: #0969da; fill: #0969da } .s1 { stroke: #bc4c00; fill: #bc4c00 } .s2 { stroke: #1a7f37; fill: #1a7f37 }
.s3 { stroke: #8250df; fill: #8250df }
.line.s0, .line.s1, .line.s2, .line.s3 { fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9da7b3 }
.page { fill: #0d1117; stroke: #30363d }
.axis { stroke: #9da7b3 }
.grid { stroke: #262c34 }
.over { stroke: #e6edf3 }
.s0 { stroke: #58a6ff; fill: #58a6ff } .s1 { stroke: #f0883e; fill: #f0883e } .s2 { stroke: #3fb950; fill: #3fb950 }
.s3 { stroke: #bc8cff; fill: #bc8cff }
}
"""
# So that who sees no colours can tell them apart.
DASHES = ["", "7 3", "2 3", "9 3 2 3"]


@dataclass
class Series:
    """What one thing was measured to be, at each place."""

    name: str
    points: list[tuple[float, Spread]]


@dataclass
class Panel:
    """Two axes, and what is between them. With `groups` the series are bars, and a place is the number of a group."""

    y_name: str
    series: list[Series]
    x_name: str = ""
    y_is_log: bool = False
    groups: list[str] = field(default_factory=list)


def short(number: float) -> str:
    """As it stands at an axis."""
    for least, letter in ((1e6, "M"), (1e3, "k")):
        if number >= least:
            return f"{number / least:g}{letter}"
    return f"{number:g}"


@dataclass
class Axis:
    """Numbers along a line of so many pixels."""

    low: float
    high: float
    is_log: bool
    begin: float
    end: float

    @classmethod
    def log_scale(cls, low: float, high: float, begin: float, end: float, room: float = 0) -> "Axis":
        """Whole powers of ten around the numbers, and a part of one more on either side."""
        return cls(10 ** (math.floor(math.log10(low)) - room), 10 ** (math.ceil(math.log10(high)) + room), True, begin, end)

    @classmethod
    def from_zero(cls, high: float, begin: float, end: float) -> "Axis":
        step = cls._step(high)
        return cls(0, step * math.ceil(high / step), False, begin, end)

    @staticmethod
    def _step(high: float) -> float:
        rough = high / 5
        power = 10 ** math.floor(math.log10(rough))
        return next(times * power for times in (1, 2, 2.5, 5, 10) if times * power >= rough)

    def ticks(self) -> list[float]:
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        step = self._step(self.high)
        return [round(step * number, 9) for number in range(round(self.high / step) + 1)]

    def at(self, number: float) -> float:
        low, high = (math.log10(self.low), math.log10(self.high)) if self.is_log else (self.low, self.high)
        place = math.log10(number) if self.is_log else number
        return round(self.begin + (place - low) / (high - low) * (self.end - self.begin), 1)


def element(name: str, text: str = "", **attributes: object) -> str:
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items() if value != "")
    return f"<{name}{told}>{escape(text)}</{name}>" if text else f"<{name}{told}/>"


def draw(title: str, told: str, panels: list[Panel]) -> str:
    """The picture; `told` is the line below it, whose parts have dots between them."""
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    parts = [element("text", title, x=MARGIN, y=28, class_="title"), *_legend(names, 50, any(panel.groups for panel in panels))]
    width = (WIDTH - 2 * MARGIN - GAP * (len(panels) - 1)) / len(panels)
    top = 86
    for number, panel in enumerate(panels):
        left = MARGIN + number * (width + GAP)
        parts += _panel(panel, names, left + LEFT, left + width - 4, top, top + PLOT_HEIGHT)
    height = top + PLOT_HEIGHT + BOTTOM
    lines = _broken(told, (WIDTH - 2 * MARGIN) / 5.6)
    for line in lines:
        height += 15
        parts.append(element("text", line, x=MARGIN, y=height, class_="small"))
    height += 14
    page = element("rect", x=.5, y=.5, width=WIDTH - 1, height=height - 1, rx=6, class_="page")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
    return "\n".join([head, element("title", title), element("desc", told), f"<style>{STYLE}</style>", page, *parts, "</svg>"]) + "\n"


def _broken(text: str, letters: float) -> list[str]:
    lines = [""]
    for part in text.split(" · "):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if len(longer) > letters and lines[-1]:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines


def _legend(names: list[str], y: float, is_of_bars: bool) -> list[str]:
    parts, x = [], MARGIN
    for number, name in enumerate(names):
        if is_of_bars:
            parts.append(element("rect", x=x, y=y - 6, width=26, height=12, class_=f"key s{number}"))
        else:
            parts.append(element("line", x1=x, y1=y, x2=x + 26, y2=y, class_=f"line s{number}", stroke_dasharray=DASHES[number]))
            parts.append(_mark(number, x + 13, y))
        parts.append(element("text", name, x=x + 32, y=y + 4))
        x += 50 + round(len(name) * LETTER)
    return parts


def _mark(number: int, x: float, y: float) -> str:
    kind = f"s{number}"
    if number == 0:
        return element("circle", cx=x, cy=y, r=4, class_=kind)
    if number == 1:
        return element("rect", x=x - 3.5, y=y - 3.5, width=7, height=7, class_=kind)
    corners = [(0, -5), (4.5, 3.5), (-4.5, 3.5)] if number == 2 else [(0, -5), (5, 0), (0, 5), (-5, 0)]
    return element("polygon", points=" ".join(f"{round(x + a, 1)},{round(y + b, 1)}" for a, b in corners), class_=kind)


def _panel(panel: Panel, names: list[str], left: float, right: float, top: float, bottom: float) -> list[str]:
    spreads = [spread for series in panel.series for _, spread in series.points]
    highest = max(spread.highest for spread in spreads)
    if panel.y_is_log:
        y = Axis.log_scale(min(spread.lowest for spread in spreads), highest, bottom, top)
    else:
        y = Axis.from_zero(highest, bottom, top)
    parts = [element("text", panel.y_name, x=left - LEFT + 4, y=top - 12)]
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(element("line", x1=left, y1=at, x2=right, y2=at, class_="grid"))
        parts.append(element("text", short(tick), x=left - 6, y=at + 4, text_anchor="end"))
    parts.append(element("path", d=f"M{left} {top}V{bottom}H{right}", class_="axis"))
    return parts + (_bars if panel.groups else _lines)(panel, names, y, left, right)


def _lines(panel: Panel, names: list[str], y: Axis, left: float, right: float) -> list[str]:
    places = [place for series in panel.series for place, _ in series.points]
    x, parts = Axis.log_scale(min(places), max(places), left, right, room=0.12), []
    for tick in x.ticks():
        parts.append(element("line", x1=x.at(tick), y1=y.begin, x2=x.at(tick), y2=y.begin + 5, class_="axis"))
        parts.append(element("text", short(tick), x=x.at(tick), y=y.begin + 18, text_anchor="middle"))
    parts.append(element("text", panel.x_name, x=round((left + right) / 2, 1), y=y.begin + 36, text_anchor="middle"))
    for series in panel.series:
        number = names.index(series.name)
        points = [(x.at(place), spread) for place, spread in sorted(series.points, key=lambda point: point[0])]
        # Side by side, where they would lie on each other.
        aside = 3 * (number - (len(names) - 1) / 2)
        line = " ".join(f"{at},{y.at(spread.median)}" for at, spread in points)
        parts.append(element("polyline", points=line, class_=f"line s{number}", stroke_dasharray=DASHES[number]))
        for at, spread in points:
            parts.append(_whisker(at + aside, spread, y, f"spread s{number}"))
            parts.append(_mark(number, at, y.at(spread.median)))
    return parts


def _bars(panel: Panel, names: list[str], y: Axis, left: float, right: float) -> list[str]:
    parts, room = [], (right - left) / len(panel.groups)
    width = room * 0.76 / len(names)
    for group, name in enumerate(panel.groups):
        middle = left + room * (group + 0.5)
        parts.append(element("text", name, x=round(middle, 1), y=y.begin + 18, text_anchor="middle"))
        for series in panel.series:
            number, spread = names.index(series.name), dict(series.points)[group]
            begin = middle + (number - len(names) / 2) * width
            at = y.at(spread.median)
            parts.append(element("rect", x=round(begin + 1, 1), y=at, width=round(width - 2, 1), height=round(y.begin - at, 1), class_=f"bar s{number}"))
            parts.append(_whisker(round(begin + width / 2, 1), spread, y, "over"))
    return parts


def _whisker(at: float, spread: Spread, y: Axis, kind: str) -> str:
    low, high = y.at(spread.lowest), y.at(spread.highest)
    at = round(at, 1)
    return element("path", d=f"M{round(at - 4, 1)} {low}h8M{at} {low}V{high}M{round(at - 4, 1)} {high}h8", class_=kind)
