"""The root group: loads commands on demand and turns errors into exit codes."""

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
    "worker": "headway.cli.worker.run:worker",
    "worker-list": "headway.cli.worker.list:worker_list",
    "worker-drain": "headway.cli.worker.drain:worker_drain",
    "job": "headway.cli.job.commands:job",
    "queue": "headway.cli.queue.commands:queue",
    "schedule": "headway.cli.schedule.commands:schedule",
    "errors": "headway.cli.errors:errors",
    "check": "headway.cli.check:check",
    "health": "headway.cli.health:health",
    "bench": "headway.cli.bench.command:bench",
    "config": "headway.cli.config:config",
}
"""In the order of `headway --help`. A module is imported when its command is used."""


class Root(click.Group):
    """Commands by name. Errors become one line and an exit code here."""

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
            raise  # click handles these, and `| head` closing the pipe
        except HeadwayError as error:
            if wants_traceback(ctx):
                raise
            complain(str(error))
            ctx.exit(exit_code(error))
        except Exception as error:
            if wants_traceback(ctx):
                raise
            complain(
                f"bug in Headway: {type(error).__name__}: {error}; "
                "add --debug for the traceback, and report it"
            )
            ctx.exit(DEFECT)


_EPILOG = """
\b
Exit codes:
  0  success
  1  the command had nothing to do (no such job, nothing to cancel), or health or check found a problem
  2  wrong command, app, configuration or schema
  3  the database cannot be reached or refused the command
  4  a bug in Headway

\b
The database is the first of: --dsn, $HEADWAY_DATABASE_URL, $DATABASE_URL, database_url in
headway.toml, and an embedded PostgreSQL in ./.headway that a worker or program created.
`headway config` shows every setting and its source.
"""


@click.group(
    cls=Root,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="headway")
def root() -> None:
    """Durable background jobs on PostgreSQL."""
