-- Extends this worker's lease. It also elects the leader: the worker stays leader, or becomes it if there is none.
-- * No row comes back if the lease had run out. Others may have its jobs already, and the worker must register again.
-- * It reads no job (G14), and no request locks the row of the worker.
-- * `leader_expires_in` is how long the leader's lease still runs, before this statement. Others take over at that moment.
-- * `draining` is whether somebody asked the worker to drain.
-- * `server` identifies the server, so that a worker notices when it was moved to another.
-- * The row also stores whether the worker is listening, and what is wrong with it.
with alive as (
  update {schema}.worker
  set seen_at = coalesce(%(now)s, now()),
      expires_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease)s),
      listening = coalesce(%(listening)s::boolean, listening),
      trouble = %(trouble)s::text
  where id = %(worker)s and expires_at > coalesce(%(now)s, now())
  returning id, expires_at
),
leadership as (
  insert into {schema}.leader as l (name, worker_id, expires_at)
  select 'sweeps', id, expires_at from alive
  on conflict (name) do update set worker_id = excluded.worker_id, expires_at = excluded.expires_at
  where l.worker_id = excluded.worker_id or l.expires_at <= coalesce(%(now)s, now())
  returning worker_id
)
select exists (select 1 from leadership) as leads,
       (select extract(epoch from l.expires_at - coalesce(%(now)s, now()))::double precision
        from {schema}.leader l where l.name = 'sweeps') as leader_expires_in,
       exists (select 1 from {schema}.drain_request r where r.worker_id = alive.id) as draining,
       concat(inet_server_addr(), ' ', inet_server_port(), ' ', extract(epoch from pg_postmaster_start_time())) as server
from alive
