-- A new worker, alive for one lease from now. `was` is the id under which the same process lost its lease: that
-- worker did not crash, and its jobs are not suspected of anything (rescue.sql).
with survived as (
  update {schema}.worker set survived = true where id = %(was)s::bigint
)
insert into {schema}.worker (name, version, slots, queues, tasks, schedules, started_at, seen_at, expires_at)
values (%(name)s, %(version)s, %(slots)s, %(queues)s::jsonb, %(tasks)s::jsonb, %(schedules)s::jsonb,
        coalesce(%(now)s, now()), coalesce(%(now)s, now()),
        coalesce(%(now)s, now()) + make_interval(secs => %(lease)s))
returning id
