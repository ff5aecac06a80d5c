"""`headway migrate`: create or upgrade the schema."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, unopened_database
from headway.cli.output import clean, print_json


@click.command
@click.option("--sql", is_flag=True, help="Print the SQL of all migrations without running it.")
@click.option(
    "--roles",
    is_flag=True,
    help="Also create roles for producers, workers, readers and operators, named after the schema.",
)
@as_json
@unopened_database
def migrate(hw: Headway, sql: bool, roles: bool, as_json: bool) -> None:
    """Create or upgrade Headway's schema. Only --roles changes anything outside it.

    It is safe to run several at the same time: each migration is applied once.
    """
    schema = hw.schema
    if sql:
        click.echo(hw.migration_sql(roles=roles), nl=False)
        return
    applied = hw.migrate_sync(roles=roles)
    if not hw.place.embedded:  # `options` has printed it
        click.echo(f"using {clean(str(hw.place))}", err=True)
    if as_json:
        print_json({"schema": schema, "version": hw.schema_version, "applied": applied})
        return
    for name in applied:
        click.echo(f"applied {name}")
    click.echo(f"schema {schema} is at version {hw.schema_version}")
