"""The group of all commands: finds them when they are asked for, and turns errors into exit codes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from headway.cli.exits import DEFECT, complain, exit_code
from headway.cli.options import wants_traceback
from headway.errors import HeadwayError
from headway.version import __version__

COMMANDS = {
    "init": "headway.cli.init:init",
    "migrate": "headway.cli.migrate:migrate",
    "worker": "headway.cli.worker:worker",
    "worker-list": "headway.cli.workers:worker_list",
    "worker-drain": "headway.cli.worker_drain:worker_drain",
    "job": "headway.cli.job:job",
    "queue": "headway.cli.queue:queue",
    "schedule": "headway.cli.schedule:schedule",
    "errors": "headway.cli.errors:errors",
    "health": "headway.cli.health:health",
    "config": "headway.cli.config:config",
}
"""In the order of `headway --help`. A module is imported when its command is asked for."""


class Root(click.Group):
    """Commands by name, and one place where an error becomes a line and a code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click knows what to do, also when `| head` has read enough
        except HeadwayError as error:
            if wants_traceback(ctx):
                raise
            complain(str(error))
            ctx.exit(exit_code(error))
        except Exception as error:
            if wants_traceback(ctx):
                raise
            complain(
                f"this is a defect of Headway: {type(error).__name__}: {error}; "
                "--debug shows where it happened"
            )
            ctx.exit(DEFECT)


_EPILOG = """
\b
Exit codes:
  0  done
  1  what was asked for does not hold: no such job, nothing to cancel, unhealthy
  2  the command, the app or the schema is not right
  3  the database cannot be reached, or refuses
  4  a defect of Headway itself

\b
Where the database is: --dsn, else $HEADWAY_DATABASE_URL, else $DATABASE_URL, else database_url in
headway.toml, else an embedded PostgreSQL in ./.headway, if a worker or a program has made one.
`headway config` shows what holds.
"""


@click.group(
    cls=Root,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="headway")
def root() -> None:
    """Durable background jobs on PostgreSQL and nothing else."""
