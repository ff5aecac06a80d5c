"""`headway init`: write a small project that works."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from headway.cli.exits import CommandFailed
from headway.cli.options import debug

_TEMPLATES = resources.files("headway.cli") / "templates"


@click.command
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@debug
def init(directory: Path) -> None:
    """Write a small working project to DIRECTORY (default: the current one).

    Existing files are never overwritten.
    """
    files = {
        directory / template.name.removesuffix(".txt"): template.read_text("utf-8")
        for template in sorted(_TEMPLATES.iterdir(), key=lambda template: template.name)
    }
    if there := [path for path in files if path.exists()]:
        raise CommandFailed(
            f"{', '.join(map(str, there))} already exists; choose another directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, "utf-8")
        click.echo(f"wrote {path}")
    enter = "" if directory == Path() else f"cd {directory} && "
    click.echo(f"\nnext: {enter}headway worker app:hw\nand:  {enter}python produce.py")
