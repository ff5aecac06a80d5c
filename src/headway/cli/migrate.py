"""`headway migrate`: create or upgrade the schema."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean, print_json
from headway.store import migrate as migrations


@click.command
@click.option("--sql", is_flag=True, help="Print the SQL of all migrations, and touch nothing.")
@click.option(
    "--roles",
    is_flag=True,
    help="Also make roles for producers, workers, readers and operators, named after the schema.",
)
@as_json
@database
def migrate(hw: Headway, sql: bool, roles: bool, as_json: bool) -> None:
    """Create or upgrade Headway's schema, and nothing outside it but roles, if asked to.

    Any number of these may run at once; each migration is applied once.
    """
    schema = hw.session.schema
    if sql:
        click.echo(migrations.script(schema, roles=roles), nl=False)
        return
    applied = hw.migrate_sync(roles=roles)
    if not hw.session.place.embedded:  # else it has been said
        click.echo(f"on {clean(str(hw.session.place))}", err=True)
    if as_json:
        print_json({"schema": schema, "version": migrations.newest(), "applied": applied})
        return
    for name in applied:
        click.echo(f"applied {name}")
    click.echo(f"schema {schema} is at version {migrations.newest()}")
