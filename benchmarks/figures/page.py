"""docs/performance.md and notes/measurements.md: their pictures and tables, from the results that are kept."""

import sys
from pathlib import Path

from figure import FIGURES, Figure
from results import Results

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS_DIR = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/performance.md"
PICTURES = ROOT / "docs/images/figures"
MEASUREMENTS = ROOT / "notes/measurements.md"
HEAD = """# Measurements

All numbers behind the pictures of [Performance](../docs/performance.md), which explains how to read them. `scripts/bench --keep` writes this page.
"""


def written() -> dict[Path, str]:
    """Each file, and what has to be in it."""
    files, page, drawn = {}, PAGE.read_text(encoding="utf-8"), []
    for figure in FIGURES:
        kept = RESULTS_DIR / f"{figure.part}.jsonl"
        if not kept.exists():
            sys.exit(f"{figure.name} has nothing to be drawn of: scripts/bench --keep {figure.part}")
        results = Results.read(kept)
        files[PICTURES / f"{figure.name}.svg"] = figure.draw(results)
        page = placed(page, figure)
        drawn.append((figure, results))
    return {**files, PAGE: page, MEASUREMENTS: measurements(drawn)}


def measurements(drawn: list[tuple[Figure, Results]]) -> str:
    """The page of all tables behind the pictures."""
    parts = [HEAD]
    for figure, results in drawn:
        if figure.has_tables:
            tables = figure.tables(results)
            parts += [f"## {figure.title}\n", *(f"{table.title}:\n\n{table.markdown()}\n" for table in tables)]
    return "\n".join(parts)


def placed(page: str, figure: Figure) -> str:
    """The page with a picture between the comments that name it."""
    begin, end = f"<!-- scripts/bench: {figure.name} -->\n", "<!-- scripts/bench: end -->"
    before, has_begin, rest = page.partition(begin)
    old, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        sys.exit(f"{PAGE.name} has no place for {figure.name}: {begin.strip()} and {end}")
    picture = f"![{figure.title}]({PICTURES.relative_to(PAGE.parent)}/{figure.name}.svg)"
    return f"{before}{begin}\n{picture}\n\n{end}{after}"


def check(files: dict[Path, str]) -> None:
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    wrong += sorted(set(PICTURES.glob("*")) - set(files))
    if wrong:
        sys.exit(f"not what the kept results say (python3 benchmarks/figures): {', '.join(str(path.relative_to(ROOT)) for path in wrong)}")
    print(f"{len(FIGURES)} figures are what the kept results say")
