-- A new worker, alive for one lease from now.
insert into {schema}.worker (name, version, slots, queues, tasks, schedules, started_at, seen_at, expires_at)
values (%(name)s, %(version)s, %(slots)s, %(queues)s::jsonb, %(tasks)s::jsonb, %(schedules)s::jsonb,
        coalesce(%(now)s, now()), coalesce(%(now)s, now()),
        coalesce(%(now)s, now()) + make_interval(secs => %(lease)s))
returning id
