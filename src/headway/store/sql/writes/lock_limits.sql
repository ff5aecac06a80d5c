-- Locks limits before a claim, in the same round trip. The claim has a newer snapshot and sees every start under them.
-- * The lock is advisory. A person who changes a limit in an open transaction has its row, not its lock (G14).
-- * A limit that another claim has locked is skipped: its transaction may stay open (a consumer in SQL).
-- * A setting of this transaction tells the claim which limits are locked.
-- * The answer has these limits, and for how long their tokens are spent.
-- * Run once more after the lock, with `counting`, it also returns how many more jobs may run. The claim finds at least
--   that much room, because nobody else can start any. A claim that returns fewer found no more jobs.
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
remembered as materialized (
  select set_config('headway.locked', coalesce(string_agg(kind || ' ' || name, chr(31)), ''), true) from ours
)
select kind, name, rate, burst, spent_for,
       case when %(counting)s::boolean then greatest(0, concurrency - {part running_under ours}) end as room
from ours, remembered
