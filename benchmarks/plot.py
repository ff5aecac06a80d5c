"""Draw what a benchmark printed as a picture: one row per case, its spread, its rounds and its median.

    .venv/bin/python -m benchmarks.throughput | tee run.txt
    .venv/bin/python -m benchmarks.plot run.txt run.svg [--title TEXT] [--note TEXT]

Two kinds of lines are understood, and one file has one kind:

    round 1  headway                  39,900 jobs/s      a dot; the median is computed
    a rate of the queue    0.93 (0.90 to 0.97)           a median with its spread, as `ratios` prints

The first other line becomes the caption. The picture is plain SVG, so it needs no library.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

_ROUND = re.compile(r"^\s*round \d+\s{2}(?P<case>\S.*?)\s+(?P<rate>[\d,]+) \w+/s\s*$")
_RATIO = re.compile(
    r"^\s*(?P<case>\S.*?)\s+(?P<medians>\d+\.\d+(?: and \d+\.\d+)*)"
    r" \((?P<low>\d+\.\d+) to (?P<high>\d+\.\d+)\)"
)
_LEFT, _RIGHT, _TOP, _ROW, _WIDTH = 330, 120, 64, 30, 960
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}"
    ".grid{stroke:#d0d7de}.spread{stroke:#9ab6d8;stroke-width:9;stroke-linecap:round}"
    ".dot{fill:#0969da}.median{stroke:#0a3069;stroke-width:3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#3d444d}"
    ".spread{stroke:#2f4a6d}.dot{fill:#4493f8}.median{stroke:#cae3ff}}"
)


@dataclass(slots=True)
class Row:
    """One case: the rounds if they are known, the medians, and the spread."""

    rounds: list[float] = field(default_factory=list[float])
    medians: list[float] = field(default_factory=list[float])
    low: float = math.inf
    high: float = -math.inf

    def add_round(self, rate: float) -> None:
        self.rounds.append(rate)
        self.medians = [statistics.median(self.rounds)]
        self.low, self.high = min(self.low, rate), max(self.high, rate)


@dataclass(slots=True)
class Run:
    """The output of a benchmark: a caption, and a row for each case."""

    caption: str = ""
    rows: dict[str, Row] = field(default_factory=dict[str, Row])


def read(lines: Iterable[str]) -> Run:
    """Return the cases in `lines`. Raise ValueError if there are none."""
    run = Run()
    for line in lines:
        if match := _ROUND.match(line):
            rate = float(match["rate"].replace(",", ""))
            run.rows.setdefault(match["case"], Row()).add_round(rate)
        elif match := _RATIO.match(line):
            medians = [float(text) for text in match["medians"].split(" and ")]
            run.rows[match["case"]] = Row([], medians, float(match["low"]), float(match["high"]))
        elif not run.caption and line.strip():
            run.caption = line.strip()
    if not run.rows:
        raise ValueError(
            "no figures found: expected lines such as 'round 1  headway  39,900 jobs/s'"
        )
    return run


def draw(run: Run, title: str, note: str = "") -> str:
    """Return the run as SVG. The axis begins at zero."""
    highest = max(row.high for row in run.rows.values())
    tick = _tick(highest)
    ticks = [tick * number for number in range(math.ceil(highest / tick) + 1)]
    bottom = _TOP + _ROW * len(run.rows)

    def x(value: float) -> str:
        return f"{_LEFT + (_WIDTH - _LEFT - _RIGHT) * value / ticks[-1]:.1f}"

    def label(value: float) -> str:
        return f"{value:,.0f}" if highest >= 10 else f"{value:.2f}"

    def line(kind: str, left: float, right: float, top: float, base: float) -> str:
        return f'<line class="{kind}" x1="{x(left)}" x2="{x(right)}" y1="{top}" y2="{base}"/>'

    parts = [
        f'<text x="12" y="22">{escape(title)}</text>',
        f'<text class="small" x="12" y="41">{escape(run.caption)}</text>',
    ]
    for value in ticks:
        place = f'x="{x(value)}" y="{bottom + 16}" text-anchor="middle"'
        parts += [
            line("grid", value, value, _TOP - 6, bottom),
            f'<text class="small" {place}>{label(value)}</text>',
        ]
    for number, (case, row) in enumerate(run.rows.items()):
        y = _TOP + _ROW * number + _ROW // 2
        parts += [
            f'<text x="12" y="{y + 4}">{escape(case)}</text>',
            line("spread", row.low, row.high, y, y),
            *(f'<circle class="dot" cx="{x(rate)}" cy="{y}" r="3.5"/>' for rate in row.rounds),
            *(line("median", middle, middle, y - 10, y + 10) for middle in row.medians),
            f'<text x="{_WIDTH - _RIGHT + 16}" y="{y + 4}">{", ".join(map(label, row.medians))}</text>',
        ]
    if note:
        parts.append(f'<text class="small" x="12" y="{bottom + 40}">{escape(note)}</text>')
    size = f"0 0 {_WIDTH} {bottom + (52 if note else 28)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img">\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _tick(highest: float) -> float:
    """Return the distance of grid lines: 1, 2 or 5 times a power of ten, at most eight of them."""
    power = 10.0 ** math.floor(math.log10(highest))
    return next(power * factor for factor in (0.2, 0.5, 1, 2) if highest <= 8 * power * factor)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="what the benchmark printed")
    parser.add_argument("svg", type=Path, help="the file to write")
    parser.add_argument("--title", default="Per second: each round, the spread and the median")
    parser.add_argument("--note", default="", help="a line below the plot")
    options = parser.parse_args()
    run = read(options.run.read_text().splitlines())
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(draw(run, options.title, options.note))


if __name__ == "__main__":
    main()
