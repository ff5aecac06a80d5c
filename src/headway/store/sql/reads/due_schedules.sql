-- Lists the schedules that are due, with the moment, and the seconds until the next one.
-- * If none is due, one row has only the moment and the seconds.
select t.moment, extract(epoch from t.next_at - t.moment)::double precision as next_due_in, d.*
from (
  select coalesce(%(now)s, now()) as moment,
         (select min(s.next_at) from {schema}.schedule s
          where s.next_at is not null and s.paused_at is null and s.next_at > coalesce(%(now)s, now())) as next_at
) t
left join lateral (
  select s.name, s.spec, s.catch_up, s.most, s.jitter, s.since, s.done_until, s.ends_at, s.version
  from {schema}.schedule s
  where s.next_at is not null and s.paused_at is null and s.next_at <= t.moment
  order by s.next_at
  limit %(limit)s
) d on true
