-- Extends this worker's lease, and its leadership if it has it or nobody else does. It reads no job (G14).
-- No row comes back if the lease had run out: others may have its jobs already, and it must begin anew.
-- * `duty_runs_for`: how long the leader's lease still runs (as it was before), so that it is taken over on time
-- * `draining`: whether somebody asked the worker to drain
-- * `server`: which server this is, so that a worker notices when it was moved to another
-- * In passing the row says whether the worker is listening, and what is wrong with it.
with alive as (
  update {schema}.worker
  set seen_at = coalesce(%(now)s, now()),
      expires_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease)s),
      listening = coalesce(%(listening)s::boolean, listening),
      trouble = %(trouble)s::text
  where id = %(worker)s and expires_at > coalesce(%(now)s, now())
  returning id, expires_at
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
       exists (select 1 from {schema}.drain_request r where r.worker_id = alive.id) as draining,
       concat(inet_server_addr(), ' ', inet_server_port(), ' ', extract(epoch from pg_postmaster_start_time())) as server
from alive
