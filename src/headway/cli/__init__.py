"""The command line: one function per command, thin over `Headway`.

Commands import `rich` only when they draw, because start-up is most of the cost of a command.
"""

from __future__ import annotations


def main() -> None:
    """Run the console script `headway`."""
    from headway.cli.root import root

    root(prog_name="headway")
