"""Where the commands print, and how: a path or message stays in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def tell(console: Console, text: str, label: str = "") -> None:
    """Print a text as it is, after a label with markup: not wrapped, not colored, its brackets no markup."""
    from rich.markup import escape

    console.print(f"{label}{escape(text)}", soft_wrap=True, highlight=False)


def output() -> Console:
    """Return where results go."""
    from rich.console import Console

    return Console()


def errors() -> Console:
    """Return where errors and warnings go."""
    from rich.console import Console

    return Console(stderr=True)
