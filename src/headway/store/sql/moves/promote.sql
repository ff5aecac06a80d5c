-- scheduled -> ready | blocked, for jobs that are due (I6). Then returns when the next one is due.
-- * A due job with a key that holds no room joins its key's line.
-- * `since` is the promoter's cursor: jobs promoted before it are dead entries at the start of the index.
-- * Any number of promoters may run. They skip rows that another has locked.
with due as materialized (
  select ctid from {schema}.job
  where state = 's' and run_at <= coalesce(%(now)s, now()) and run_at >= %(since)s::timestamptz
  order by run_at
  limit %(limit)s
  for no key update skip locked
),
up as (
  update {schema}.job
  set state = case when key is null or holds then 'r'::"char" else 'b'::"char" end,
      seq = nextval('{schema}.job_seq')
  where ctid = any (array(select ctid from due))
  returning queue, priority, run_at, state
),
notified as (
  {part notify_woken up}
)
select (select count(*) from up),
       (select max(run_at) from up),
       extract(epoch from (
         select min(run_at) from {schema}.job where state = 's' and run_at > coalesce(%(now)s, now())
       ) - coalesce(%(now)s, now()))::double precision,
       (select count(*) from notified)
