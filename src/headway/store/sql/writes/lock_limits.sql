-- Before a claim, in the same round trip: these limits are ours until the transaction ends, and the claim,
-- whose snapshot is younger, sees everything that was claimed under them before. Which ones we have is said
-- in a setting of this transaction. One that somebody else has is left alone: their transaction may be open
-- for long (a consumer in SQL), and nobody waits for it with verdicts in hand.
-- Back come those that we have, and for how long all their tokens are spent. Asked once more behind the lock,
-- with `counting`, it says how many more may run: at least so many when the claim comes, as nobody but us can
-- start any. A claim that brought fewer did so for want of jobs, not of room.
with ours as materialized (
  select kind, name, concurrency, rate, burst,
         greatest(0, extract(epoch from spent_until - coalesce(%(now)s, statement_timestamp())))::double precision as spent_for
  from {schema}.control
  where (concurrency is not null or rate is not null)
    and (kind = 'queue' and name in (select jsonb_array_elements_text(%(queues)s::jsonb))
         or kind = 'task' and name in (select jsonb_array_elements_text(%(tasks)s::jsonb)))
  order by kind, name
  for no key update skip locked
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
