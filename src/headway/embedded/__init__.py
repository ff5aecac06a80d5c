"""The server that needs no setting up: a PostgreSQL in `./.headway`, shared by processes.

    with start() as server:
        psycopg.connect(server.dsn)

Every process that calls `start()` on the same directory shares one server. The first one starts it,
it ends after the last one has ended, in whatever way that one ended.

**Three lock files, and why.** A count of clients in a file goes wrong at the first SIGKILL, and a
pid in a file at the first reuse of that pid. The kernel closes the files of a dead process without
fail, so every fact here is a `flock` that somebody does or does not hold:

    pg18.clients.lock    each client holds it shared, from start() to close() or to its death
    pg18.watchdog.lock   the watchdog holds it, so: held <=> a watchdog lives (or initdb at work)
    pg18.guard.lock      whoever starts or stops the server holds it meanwhile

The watchdog (`watchdog.py`) is a small detached process, the parent of the postmaster. It sleeps in
the kernel, in an exclusive request for `clients`, and wakes when the last client is gone. Then it
lets go of `clients`, takes `guard`, and asks again for `clients` without waiting: if someone joined
in between it goes back to sleep, else it stops the server and exits, `guard` in hand. It lets go
first because a starting client asks in the other order (`guard`, then `clients`). A client that
comes during the stop waits for `guard`, finds no server, and starts one as a first client does.

 - As the parent, the watchdog signals its own child and never a number from a file, and collects it
   when it dies (some containers have a PID 1 that does not), whereupon it exits too. A server that
   was killed is thus seen by the next `start()` as "no watchdog", and started again. A client that
   finds its server gone does the same with `start_again()`: it has `clients` and takes `guard`.
   The holder of `guard` asks for `clients` shared or without waiting, so that nobody waits in a circle.
 - If the watchdog alone is killed, the server runs on unguarded: the next `start()` replaces it.
 - `clients` is taken before the watchdog is spawned, and the watchdog starts the server: a client
   killed at any point of a start leaves a watchdog that cleans up.
 - Locks must not outlive their holder in a child: files are close-on-exec, and a forked child
   closes its copies (`locks.py`). A child that needs the server calls `start()` itself.
 - Deleting the directory under a running server is not an error: the locks of the new directory are
   new files, its socket has a new name, and the old pair ends with its own clients.

**Root.** PostgreSQL refuses to run as root, so the server runs as `nobody` (or as the owner of the
data, if that is someone else already) and owns nothing but its data and its socket directory. So
whatever else runs as that account can read and change the data: it is a superuser there. No account
is made and no directory that exists is changed. If `nobody` may not walk down to the directory (below
a 0700 home, say), everything is kept in `/var/lib/headway/<project>-<random>/`,
and `./.headway/elsewhere` is a link to it. The locks are there too, beside the data, so that a copy
of the link is the same server. Deleting the link abandons the data and does not delete it. Binaries
that `nobody` cannot reach are copied, once per version, to `/var/cache/headway/`.

**Strangers.** The directory must belong to this account, and no other may write to it; locks and logs are
never links, and no file of another account leads to a server (`trust.py`). Root enters no user's
directory: its owner could have root write anywhere.

**Reach.** No TCP, and pg_hba.conf rejects it if `settings` open a port. The server listens on a socket
in a directory of `/tmp` that only this user may enter (as root:
root and `nobody`), which is why there is no password. Everyone is the superuser `postgres`.
Durability is PostgreSQL's own: a commit is on disk. Only `initdb` does not wait for the disk.
Another major version of the binaries begins with other data (`pg19`), and leaves the old as it is.
"""

from __future__ import annotations

from headway.embedded.binaries import Binaries, find_binaries
from headway.embedded.server import EmbeddedServer, exists, start

__all__ = ["Binaries", "EmbeddedServer", "exists", "find_binaries", "start"]
