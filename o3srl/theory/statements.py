"""What is stated, what was seen, and whether that is what should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rich.table import Table


class Statement(NamedTuple):
    """Fields: source, where in the paper; claim, in a sentence; expected, whether it should hold; holds, whether it was
    seen to; figure, the numbers that it was seen by."""

    source: str
    claim: str
    expected: bool
    holds: bool
    figure: str

    @property
    def verdict(self) -> str:
        """What to print: holds, fails as expected, or what is wrong."""
        if self.holds == self.expected:
            return "holds" if self.holds else "fails, as expected"
        return "FAILS" if self.expected else "HOLDS, BUT SHOULD FAIL"


def table(statements: list[Statement]) -> Table:
    """Return the statements as a table for the terminal."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table(title="What the paper states, on problems whose answers are exact", title_justify="left")
    for name in ("where", "statement", "seen", "by"):
        shown.add_column(name, overflow="fold")
    for one in statements:
        sound = one.holds == one.expected
        color = "green" if one.holds and sound else "yellow" if sound else "bold red"
        cells = [escape(cell) for cell in (one.source, one.claim, one.verdict, one.figure)]
        shown.add_row(cells[0], cells[1], f"[{color}]{cells[2]}[/]", cells[3])
    return shown


def slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the slope of log y over log x, by least squares.

    >>> round(slope([1, 2, 4, 8], [8, 4, 2, 1]), 6)
    -1.0
    """
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])
