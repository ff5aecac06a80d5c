"""The cluster: one etcd, three Patroni nodes, HAProxy and PgBouncer, all on 127.0.0.1."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg

from ha_cluster.packages import postgres_bin, program
from ha_cluster.processes import ACCOUNT, Processes, descendants, kill, plain_environment, until

NODES = (1, 2, 3)
DATABASES = ("multi", "haproxy", "bouncer")

_PATRONI = """\
scope: headway
name: node{n}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{host: "127.0.0.1:{etcd}"}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 5
    retry_timeout: 5
    primary_start_timeout: 0
    synchronous_mode: {synchronous}
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 300, wal_keep_size: 512MB}}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, data-checksums]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {home}/pgpass
  authentication:
    superuser: {{username: postgres, password: unused}}
    replication: {{username: replicator, password: unused}}
  parameters: {{unix_socket_directories: "{home}"}}
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 trust
    - host replication all 127.0.0.1/32 trust
"""

_HAPROXY = """\
global
    maxconn 1000
defaults
    mode tcp
    timeout connect 4s
    timeout client 30m
    timeout server 30m
    timeout check 5s
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions
"""

_PGBOUNCER = """\
[databases]
* = host=127.0.0.1 port={haproxy}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users.txt
pool_mode = transaction
default_pool_size = 40
max_client_conn = 500
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
"""


class Cluster:
    """A cluster in `directory`, with its ports from `port` on."""

    def __init__(
        self, directory: Path, processes: Processes, *, port: int, synchronous: bool
    ) -> None:
        self.directory = directory
        self.port = port
        self.synchronous = synchronous
        self._processes = processes
        self._etcd_port = port + 20
        self._patroni: dict[int, subprocess.Popen[bytes]] = {}
        self._bouncer: subprocess.Popen[bytes] | None = None

    # -- starting ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything. Return when the primary takes writes and its standbys stream."""
        self._start_etcd()
        for n in NODES:
            self._configure_node(n)
            self.start_patroni(n)
        until("a primary", self.primary, within=90)
        until("two standbys that stream", lambda: self._standbys() == 2, within=120)
        if self.synchronous:
            until("a synchronous standby", self._has_synchronous_standby, within=60)
        self._start_haproxy()
        self._configure_bouncer()
        self.start_bouncer()
        with psycopg.connect(self.direct_dsn("postgres"), autocommit=True) as conn:
            for name in DATABASES:
                conn.execute(f"create database {name}")
        for name in DATABASES:
            until(f"an answer through {name}", partial(self._answers, name), within=60)

    def dsn(self, name: str) -> str:
        """Return how the clients of a database reach it: each by another way."""
        if name == "multi":
            return self.direct_dsn(name)
        port = self.port if name == "haproxy" else self.port + 50
        return f"postgresql://postgres@127.0.0.1:{port}/{name}"

    def direct_dsn(self, database: str) -> str:
        """Return a DSN with all servers, of which libpq takes the primary."""
        hosts = ",".join(f"127.0.0.1:{self.port + n}" for n in NODES)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    # -- looking ----------------------------------------------------------------------------------

    def primary(self) -> int | None:
        """Return the node that Patroni calls the primary and that takes writes, if there is one."""
        return next((n for n in NODES if self._rest(n, "/primary") == 200), None)

    def postmaster(self, n: int) -> int:
        """Return the process id of a node's postmaster. Raise `OSError` if it does not run."""
        pid = int((self._data(n) / "postmaster.pid").read_text().split()[0])
        # A killed one leaves its file behind, and its number may be a stranger's by now.
        if str(self._data(n)) not in Path(f"/proc/{pid}/cmdline").read_text():
            raise ProcessLookupError(f"node {n} has no postmaster")
        return pid

    def postgres_pids(self, n: int) -> list[int]:
        """Return the postmaster of a node and all its backends."""
        postmaster = self.postmaster(n)
        return [postmaster, *descendants(postmaster)]

    def patroni_pid(self, n: int) -> int:
        """Return the process id of a node's Patroni."""
        return self._patroni[n].pid

    def walsenders(self, n: int) -> list[int]:
        """Return the backends of a node that send WAL to standbys."""
        dsn = f"postgresql://postgres@127.0.0.1:{self.port + n}/postgres"
        with psycopg.connect(dsn, autocommit=True) as conn:
            return [pid for (pid,) in conn.execute("select pid from pg_stat_replication")]

    # -- changing ---------------------------------------------------------------------------------

    def start_patroni(self, n: int) -> None:
        """Start a node's Patroni. It takes over the PostgreSQL that runs there, or starts one."""
        command = [program("patroni"), str(self._home(n) / "patroni.yml")]
        self._patroni[n] = self._processes.start(f"patroni{n}", command, unprivileged=True)

    def switch_over(self) -> None:
        """Ask Patroni for another primary, as an operator does."""
        config = self._home(NODES[0]) / "patroni.yml"
        command = [program("patronictl"), "-c", str(config), "switchover", "headway", "--force"]
        done = subprocess.run(
            command,
            env=plain_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"patronictl: {done.stdout[-300:]} {done.stderr[-300:]}")

    def start_bouncer(self) -> None:
        command = [program("pgbouncer"), str(self.directory / "pgbouncer.ini")]
        self._bouncer = self._processes.start("pgbouncer", command, unprivileged=True)

    def stop_bouncer(self) -> None:
        assert self._bouncer is not None
        self._bouncer.send_signal(signal.SIGTERM)
        self._bouncer.wait(timeout=30)

    def kill_all(self) -> None:
        """End every process of the cluster. Patroni starts PostgreSQL in a session of its own."""
        for patroni in self._patroni.values():
            if patroni.poll() is None:
                kill([patroni.pid], signal.SIGCONT, signal.SIGKILL)
        for n in NODES:
            with suppress(OSError, ValueError, IndexError):
                kill(self.postgres_pids(n), signal.SIGCONT, signal.SIGKILL)
        self._processes.kill_all()

    # -- parts ------------------------------------------------------------------------------------

    def _start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._etcd_port + 1}"
        command = [program("etcd"), "--name", "ha", "--data-dir", str(self._own("etcd"))]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"ha={peer}"]
        self._processes.start("etcd", command, unprivileged=True)
        until("etcd", lambda: _status(f"{client}/health") == 200, within=30)

    def _configure_node(self, n: int) -> None:
        home = self._own(f"node{n}")
        text = _PATRONI.format(
            n=n,
            port=self.port + n,
            rest=self.port + 10 + n,
            etcd=self._etcd_port,
            synchronous=json.dumps(self.synchronous),
            data=self._data(n),
            bin=postgres_bin(),
            home=home,
        )
        (home / "patroni.yml").write_text(text)

    def _start_haproxy(self) -> None:
        lines = [
            f"    server node{n} 127.0.0.1:{self.port + n} check port {self.port + 10 + n}\n"
            for n in NODES
        ]
        config = self.directory / "haproxy.cfg"
        config.write_text(_HAPROXY.format(port=self.port) + "".join(lines))
        self._processes.start("haproxy", [program("haproxy"), "-f", str(config)], unprivileged=True)

    def _configure_bouncer(self) -> None:
        text = _PGBOUNCER.format(haproxy=self.port, port=self.port + 50, home=self.directory)
        (self.directory / "pgbouncer.ini").write_text(text)
        (self.directory / "users.txt").write_text('"postgres" ""\n')

    def _own(self, name: str) -> Path:
        """Return a directory that belongs to the cluster's account."""
        path = self.directory / name
        path.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(path, ACCOUNT, ACCOUNT)
        return path

    def _home(self, n: int) -> Path:
        return self.directory / f"node{n}"

    def _data(self, n: int) -> Path:
        return self._home(n) / "data"

    def _rest(self, n: int, path: str) -> int | None:
        return _status(f"http://127.0.0.1:{self.port + 10 + n}{path}")

    def _standbys(self) -> int:
        primary = self.primary()
        return 0 if primary is None else len(self.walsenders(primary))

    def _has_synchronous_standby(self) -> bool:
        return any(self._rest(n, "/sync") == 200 for n in NODES)

    def _answers(self, name: str) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.dsn(name), connect_timeout=3) as conn:
            conn.execute("select 1")
            return True
        return False


def _status(address: str) -> int | None:
    """Return the status of an HTTP answer; none if there is no answer."""
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
