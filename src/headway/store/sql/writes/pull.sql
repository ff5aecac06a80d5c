-- Claims jobs for a consumer without a worker, by the function for all consumers (functions/5_consumers.sql).
-- * The first column says whether a worker of the engine is alive, which promotes and rescues jobs. It comes back even
--   without a claim.
select f.lives, c.id, c.claim, c.task, c.step, c.attempt, c.max_attempts, c.priority, c.input::text, c.headers::text,
       c.carried::text, c.key
from (select {schema}.fleet_lives() as lives) f
left join {schema}.claim(%(queue)s::text, %(count)s::integer, make_interval(secs => %(lease)s),
  case when %(tasks)s::text is not null
       then array(select jsonb_array_elements_text(%(tasks)s::jsonb)) end) c on true
