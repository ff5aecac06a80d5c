-- scheduled -> ready | blocked, for what is due (I6); then says when the next one is. What has a key
-- and no room under it joins its line.
-- `since` is the promoter's cursor: what was promoted before it lies dead at the start of the index.
-- Any number of promoters may run: they skip what another holds.
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
rung as (
  select pg_notify(%(channel)s::text, 'ready ' || array_to_string((array_agg(distinct priority order by priority desc))[1:100], ',') || ' ' || queue)
  from up where state = 'r' and %(channel)s::text is not null
  group by queue
  union all
  select pg_notify(%(channel)s::text, 'blocked')
  from up where state = 'b' and %(channel)s::text is not null
  group by state
)
select (select count(*) from up),
       (select max(run_at) from up),
       extract(epoch from (
         select min(run_at) from {schema}.job where state = 's' and run_at > coalesce(%(now)s, now())
       ) - coalesce(%(now)s, now()))::double precision,
       (select count(*) from rung)
