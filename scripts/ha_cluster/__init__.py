"""A PostgreSQL cluster with failovers on loopback, Headway under load on it, and the counts after it.

packages    which Debian packages it takes
processes   starting, signalling and ending processes
cluster     etcd, Patroni, HAProxy, PgBouncer
app         the tasks whose every trace can be counted
producer    a program that enqueues and writes down what was acknowledged
load        workers and producers of one database
faults      what is done to the cluster, and when
counts      what was lost, doubled, cancelled or left behind
"""
