-- Extends this worker's lease, and its duty if it has it or nobody else does. No row comes back if
-- the lease had run out: others may have its jobs already, and it must begin anew. The second column
-- is how long the duty's lease still runs (as it was before), so that it can be taken over on time; the
-- third whether somebody asked the worker to drain. In passing the row says whether it is listening.
with alive as (
  update {schema}.worker
  set seen_at = coalesce(%(now)s, now()),
      expires_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease)s),
      listening = coalesce(%(listening)s::boolean, listening)
  where id = %(worker)s and expires_at > coalesce(%(now)s, now())
  returning id, expires_at, draining
),
duty as (
  insert into {schema}.duty (name, worker_id, expires_at)
  select 'sweeps', id, expires_at from alive
  on conflict (name) do update set worker_id = excluded.worker_id, expires_at = excluded.expires_at
  where duty.worker_id = excluded.worker_id or duty.expires_at <= coalesce(%(now)s, now())
  returning worker_id
)
select exists (select 1 from duty) as duty,
       (select extract(epoch from d.expires_at - coalesce(%(now)s, now()))::double precision
        from {schema}.duty d where d.name = 'sweeps') as duty_runs_for,
       draining
from alive
