"""The tests of the notes: `pytest`, with $DATABASE_URL of an empty database."""

from notes import app, hw


def test_a_note_is_translated() -> None:
    app.test_cli_runner().invoke(args=["migrate"], catch_exceptions=False)
    client = app.test_client()
    written = client.post("/notes", json={"text": "hello"}).get_json()
    assert client.get(f"/notes/{written['id']}").get_json()["translated"] is None

    hw.run_until_idle_sync()

    assert client.get(f"/notes/{written['id']}").get_json()["translated"] == "de: hello"
    hw.close_sync()
