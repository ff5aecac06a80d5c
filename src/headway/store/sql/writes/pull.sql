-- Claims for a consumer that is no worker, by the function for all of them (functions/5_consumers.sql). A
-- first column says whether a worker of the engine looks after what is due; it is there without a claim, too.
select f.lives, c.id, c.claim, c.task, c.step, c.attempt, c.max_attempts, c.priority, c.input::text, c.headers::text,
       c.carried::text, c.key
from (select {schema}.fleet_lives() as lives) f
left join {schema}.claim(%(queue)s::text, %(count)s::integer, make_interval(secs => %(lease)s),
  case when %(tasks)s::text is not null
       then array(select jsonb_array_elements_text(%(tasks)s::jsonb)) end) c on true
