"""Notes with Flask and SQLAlchemy: each note is translated by a job.

flask --app notes migrate        # creates the table and Headway's schema
flask --app notes run
headway worker notes:hw
"""

import os

from flask import Flask, current_app, g, jsonify, request
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from headway import Headway
from headway.flask import FlaskJobs

url = os.environ.get("DATABASE_URL", "postgresql://localhost/notes")
engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
hw = Headway()
jobs = FlaskJobs(hw)


class Base(DeclarativeBase):
    """The tables."""


class Note(Base):
    """A note, and its translation."""

    __tablename__ = "notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    translated: Mapped[str | None]


def session() -> Session:
    """Return the session of this request, or of this attempt of a job."""
    if "session" not in g:
        g.session = Session(engine)
    return g.session


@hw.task
def translate(note_id: int) -> None:
    """Translate a note. The application context is there, as in a view."""
    note = session().get_one(Note, note_id)
    note.translated = f"{current_app.config['LANGUAGE']}: {note.text}"
    session().commit()


def create_app() -> Flask:
    """Make the application."""
    app = Flask(__name__)
    app.config.update(LANGUAGE="de", HEADWAY_DATABASE_URL=url)
    jobs.init_app(app)

    @app.teardown_appcontext
    def close(_: BaseException | None) -> None:
        if (found := g.pop("session", None)) is not None:
            found.close()

    @app.post("/notes")
    def write() -> tuple[dict[str, int], int]:
        note = Note(text=request.get_json()["text"])
        session().add(note)
        session().flush()
        translate.using(conn=session()).enqueue_sync(note.id)
        session().commit()  # the note and its job, or neither
        return {"id": note.id}, 201

    @app.get("/notes/<int:note_id>")
    def show(note_id: int):
        note = session().get_one(Note, note_id)
        return jsonify(text=note.text, translated=note.translated)

    @app.cli.command("migrate")
    def migrate() -> None:
        """Create the table and Headway's schema."""
        Base.metadata.create_all(engine)
        hw.migrate_sync()

    return app


app = create_app()  # the worker imports this module, too
