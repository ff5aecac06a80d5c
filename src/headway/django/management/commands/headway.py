"""`manage.py headway ...`: the command line, with the app and the database of the project."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from headway.cli.loading import Program
from headway.cli.root import root

_APP = "headway.django.setup:hw"


class Command(BaseCommand):
    """Leaves its arguments to `headway`, whose options argparse does not know."""

    help = (
        "Work with jobs: worker, migrate, job, queue, schedule, errors, health. Try headway --help."
    )
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run `headway` with everything that follows its name."""
        # Django has read these two.
        parser = CommandParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--settings")
        parser.add_argument("--pythonpath")
        _, arguments = parser.parse_known_args(argv[2:])
        try:
            _run(arguments, argv[0])
        finally:
            connections.close_all()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take any words, for `call_command`."""
        parser.add_argument("words", nargs="*")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run `headway` for `call_command("headway", "migrate")`."""
        _run([*args, *options["words"]], sys.argv[0], standalone_mode=False)


def _run(arguments: list[str], program: str, **options: Any) -> None:
    start = [sys.executable, program, "headway"]
    root.main(
        arguments,
        prog_name=f"{os.path.basename(program)} headway",
        obj=Program(_APP, start, arguments),
        **options,
    )
