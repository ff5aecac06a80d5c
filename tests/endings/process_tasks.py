"""A task that runs in a process: at the top of a module, so that a process can import it."""

from headway import Fatal, Headway

app = Headway("postgresql://never-used@127.0.0.1:1/none")


@app.task(executor="process")
def crunch(number: int) -> None:
    raise Fatal(f"cannot crunch {number}")
