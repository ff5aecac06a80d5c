-- Notifies workers of the rows of {of} (queue, priority, state), which have just become ready, scheduled or blocked.
-- * One notification for each queue, `ready 5,0 mail`, with up to a hundred priorities: a worker knows the lanes by them.
-- * One for all scheduled jobs, `later`, and one for all blocked jobs, `blocked`.
select pg_notify(%(channel)s::text,
  {part ready_hint array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue})
from {of} where state = 'r' and %(channel)s::text is not null
group by queue
union all
select pg_notify(%(channel)s::text, case state when 's' then 'later' else 'blocked' end)
from {of} where state <> 'r' and %(channel)s::text is not null
group by state
