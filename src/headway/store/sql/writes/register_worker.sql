-- Registers a worker, with a lease from now on.
-- * `was` is the id under which the same process lost its lease. That worker did not crash, so rescue.sql suspects none
--   of its jobs.
with survived as (
  update {schema}.worker set survived = true where id = %(was)s::bigint
)
insert into {schema}.worker (name, version, slots, queues, tasks, schedules, started_at, seen_at, expires_at)
values (%(name)s, %(version)s, %(slots)s, %(queues)s::jsonb, %(tasks)s::jsonb, %(schedules)s::jsonb,
        coalesce(%(now)s, now()), coalesce(%(now)s, now()),
        coalesce(%(now)s, now()) + make_interval(secs => %(lease)s))
returning id
