-- Adds up the rows of `tally` into one row for each queue and outcome (`total`).
-- * Those who settle only insert into `tally`, so they wait for nobody.
-- * A queue in which no job has ended for 90 days is deleted from `total`.
-- * One session at a time: without the advisory lock it does nothing. The holder may be a consumer in SQL with an open
--   transaction (G14).
with turn as materialized (
  select pg_try_advisory_xact_lock(hashtextextended('{schema}.tally', 0::bigint)) as ours
),
taken as (
  delete from {schema}.tally where ctid = any (array(
    select ctid from {schema}.tally where (select ours from turn) limit %(limit)s for update skip locked))
  returning queue, outcome, count
),
added as (
  insert into {schema}.total as t (queue, outcome, count, changed_at)
  select queue, outcome, sum(count), coalesce(%(now)s, now()) from taken
  group by queue, outcome order by queue, outcome
  on conflict (queue, outcome) do update set count = t.count + excluded.count, changed_at = excluded.changed_at
  returning count
),
forgotten as (
  delete from {schema}.total t
  where (select ours from turn) and changed_at <= coalesce(%(now)s, now()) - interval '90 days'
    and not exists (select 1 from taken k where k.queue = t.queue and k.outcome = t.outcome)
  returning count
)
select (select count(*) from taken), (select count(*) from added), (select count(*) from forgotten)
