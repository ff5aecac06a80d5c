"""The embedded server: a PostgreSQL in `./.headway` that needs no set-up and is shared by processes.

    with start() as server:
        psycopg.connect(server.dsn)

Every process that calls `start()` on the same directory shares one server. The first process starts it.
The server ends after the last process has ended, in whatever way.

**Three lock files, and why.** A count of clients in a file is wrong after the first SIGKILL, and a pid in
a file is wrong after that pid is reused. The kernel always closes the files of a dead process. So every
fact here is a `flock` that some process holds or does not hold:

    pg18.clients.lock    each client holds it shared, from start() to close() or to its death
    pg18.watchdog.lock   the watchdog holds it, so: held <=> a watchdog lives (or initdb runs)
    pg18.guard.lock      a process holds it while it starts or stops the server

The watchdog (`watchdog.py`) is a small detached process, the parent of the postmaster. It sleeps in the
kernel, in an exclusive request for `clients`, and wakes when the last client is gone. Then it releases
`clients`, takes `guard`, and requests `clients` again without waiting. If a client joined in between, the
watchdog goes back to sleep. Otherwise it stops the server and exits while it holds `guard`. It releases
`clients` first because a starting client locks in the other order (`guard`, then `clients`). A client
that arrives during the stop waits for `guard`, finds no server, and starts one as a first client does.

 - As the parent, the watchdog signals its own child and never a pid from a file. It reaps the child when
   it dies (PID 1 of some containers does not), and then exits, too. So the next `start()` finds that a
   killed server has no watchdog, and starts it again. A client whose server is gone does the same with
   `start_again()`: it already holds `clients`, and takes `guard`. The holder of `guard` requests
   `clients` only shared or without waiting, so processes never wait in a circle.
 - If only the watchdog is killed, the server goes on without one. The next `start()` replaces it.
 - A client takes `clients` before it spawns the watchdog, and the watchdog starts the server. So a client
   that is killed at any point of a start leaves a watchdog that cleans up.
 - Locks must not outlive their holder in a child: files are close-on-exec, and a forked child
   closes its copies (`locks.py`). A child that needs the server calls `start()` itself.
 - Deleting the directory under a running server is not an error: the locks of the new directory are
   new files, its socket has a new name, and the old server and watchdog end with their own clients.

**Root.** PostgreSQL refuses to run as root, so the server runs as `nobody`, or as the owner of the data
if that is already another account. It owns only its data and its socket directory. So every process that
runs as that account can read and change the data: it is a superuser there. Headway does not create
accounts and does not change existing directories. If `nobody` cannot reach the directory (below a 0700
home, for example), everything is kept in `/var/lib/headway/<project>-<random>/`, and
`./.headway/elsewhere` is a link to it. The locks are next to the data, so a copy of the link leads to the
same server. Deleting the link abandons the data and does not delete it. Binaries that `nobody` cannot
reach are copied, once per version, to `/var/cache/headway/`.

**Other accounts.** The directory must belong to this account, and no other account may write to it. Locks
and logs are never links, and no file of another account leads to a server (`trust.py`). Root does not use
a user's directory: the owner could make root write anywhere.

**Access.** The server has no TCP port, and pg_hba.conf rejects TCP if `settings` open one. It listens on
a socket in a directory of `/tmp` that only this user may enter (as root: root and `nobody`). So there is
no password, and every client is the superuser `postgres`. Durability is PostgreSQL's own: a commit is on
disk. Only `initdb` does not wait for the disk. Another major version of the binaries starts with data of
its own (`pg19`) and leaves the old data alone.
"""

from __future__ import annotations

from headway.embedded.binaries import Binaries, find_binaries
from headway.embedded.server import EmbeddedServer, exists, start

__all__ = ["Binaries", "EmbeddedServer", "exists", "find_binaries", "start"]
