-- Locks limits before a claim, in the same round trip. The claim has a younger snapshot and sees everything that
-- was claimed under these limits before.
-- * The lock is advisory: a person who changes a limit in an open transaction has its row, not its lock (G14).
-- * A limit that another claim has locked is skipped: its transaction may stay open (a consumer in SQL).
-- * A setting of this transaction tells the claim which limits it has.
-- * The answer has these limits, and for how long their tokens are spent.
-- * Asked once more after the lock, with `counting`, it also says how many more may run: at least that many when
--   the claim comes, because nobody else can start any. A claim that returns fewer found no more jobs.
with asked as materialized (
  select kind, name, concurrency, rate, burst, rated_in
  from {schema}.control
  where (concurrency is not null or rate is not null)
    and (kind = 'queue' and name in (select jsonb_array_elements_text(%(queues)s::jsonb))
         or kind = 'task' and name in (select jsonb_array_elements_text(%(tasks)s::jsonb)))
),
ours as materialized (
  select kind, name, concurrency, rate, burst, greatest(0, extract(epoch from (
           select b.spent_until from {schema}.bucket b
           where b.key = {schema}.bucket_of(kind, name) and b.rated_in = asked.rated_in)
         - coalesce(%(now)s, statement_timestamp())))::double precision as spent_for
  from asked where pg_try_advisory_xact_lock(hashtextextended('{schema}.limit ' || kind || ' ' || name, 0::bigint))
),
said as materialized (
  select set_config('headway.locked', coalesce(string_agg(kind || ' ' || name, chr(31)), ''), true) from ours
)
select kind, name, rate, burst, spent_for,
       case when %(counting)s::boolean then greatest(0, concurrency - case kind
         when 'queue' then (select count(*) from (
           select from {schema}.job where queue = ours.name and state = 'x' and limited
           order by seq desc limit ours.concurrency) r)
         else (select count(*) from (
           select from {schema}.job
           where task = split_part(ours.name, '/', 1) and step = split_part(ours.name, '/', 2) and state = 'x' and limited
           order by seq desc limit ours.concurrency) r) end) end as room
from ours, said
