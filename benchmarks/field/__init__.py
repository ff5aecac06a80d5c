"""Headway, bare SQL and the peers, side by side on one server.

    benchmarks/run                                   every system and workload, one table, JSON and plots
    benchmarks/run --systems bare,headway,pgqueuer --workloads enqueue,drain --rounds 5
    benchmarks/run --quick                           small numbers: does everything run?

Each peer runs in an environment of its own, which the command makes in `.cache/field`, in the best
configuration that its documentation gives; `systems.py` states it. Peers are not dependencies of Headway.
Rounds are interleaved: each round runs every system once, every other round in reverse order.
"""
