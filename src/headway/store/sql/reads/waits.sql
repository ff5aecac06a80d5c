-- Lists sessions of workers and handlers that have waited for a lock for more than a second, and the sessions they wait for.
select w.pid as waiter, coalesce(w.application_name, '') as name,
       extract(epoch from coalesce(%(now)s, now()) - l.waited_since)::double precision as waited,
       b.pid, coalesce(b.application_name, '') as application, coalesce(b.state, '') as state,
       extract(epoch from coalesce(%(now)s, now()) - case when b.state = 'active' then b.xact_start else b.state_change end)
         ::double precision as seconds,
       left(coalesce(b.query, ''), 200) as query
from (select pid, min(waitstart) as waited_since from pg_locks where not granted group by pid) l
join pg_stat_activity w on w.pid = l.pid and w.datname = current_database()
cross join lateral unnest(pg_blocking_pids(l.pid)) as blocking(pid)
left join pg_stat_activity b on b.pid = blocking.pid
where (starts_with(w.application_name, 'headway worker ')
       or starts_with(w.application_name, 'headway handlers of worker ') and strpos(w.application_name, ' in {plain}') > 0)
  and l.waited_since < coalesce(%(now)s, now()) - interval '1 second'
order by l.waited_since
limit 10
