-- Lists sessions whose open transaction has locked what others of this schema may wait for, the oldest first.
-- * `whole`: it has locked a table against writers or readers. Otherwise it wrote rows and has not ended yet.
-- * Rows count only if they were written more than `since` seconds ago, when the waiting began.
-- * It reads no table of ours, so it answers whatever is locked.
-- * Without the rights to see other roles' sessions, only pid and application are known. A prepared transaction has no pid.
select l.pid, coalesce(a.application_name, '') as application, coalesce(a.state, '') as state,
       extract(epoch from coalesce(%(now)s, now()) - case when a.state = 'active' then a.xact_start else a.state_change end)
         ::double precision as seconds,
       left(coalesce(a.query, ''), 200) as query, l.whole
from (
  select l.pid, bool_or(l.mode <> 'RowExclusiveLock') as whole
  from pg_locks l join pg_class c on c.oid = l.relation
  where c.relnamespace = '{schema}'::regnamespace and c.relkind in ('r', 'p') and l.locktype = 'relation' and l.granted
    and l.database = (select oid from pg_database where datname = current_database())
    and l.mode in ('RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    and l.pid is distinct from pg_backend_pid()
    and (l.mode <> 'RowExclusiveLock' or c.relname in ('job', 'unique_period', 'control', 'schedule'))
  group by l.pid
) l
left join pg_stat_activity a on a.pid = l.pid
where l.whole or coalesce(a.xact_start <= coalesce(%(now)s, now()) - make_interval(secs => %(since)s), true)
order by not l.whole, a.xact_start
limit 3
