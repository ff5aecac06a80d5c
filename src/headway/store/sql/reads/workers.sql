-- Lists the workers seen within the last hour, and whether each is alive by the database's clock.
select id, name, version, slots, queues::text, tasks::text, started_at, seen_at,
       expires_at > coalesce(%(now)s, now()) as alive,
       extract(epoch from coalesce(%(now)s, now()) - seen_at)::double precision as silent_for,
       exists (select 1 from {schema}.leader d where d.worker_id = worker.id) as leader,
       exists (select 1 from {schema}.drain_request r where r.worker_id = worker.id) as draining, listening,
       trouble
from {schema}.worker order by id
