"""The command line: one function per command, thin over `Headway` and the store's statements.

`rich` is imported by the commands that draw with it, when they draw: starting up is most of what a
command costs.
"""

from __future__ import annotations


def main() -> None:
    """The console script `headway`."""
    from headway.cli.root import root

    root(prog_name="headway")
