-- How many jobs run under the limit in the row {of} (kind, name, concurrency) of a queue or a task.
-- * It counts only up to the limit.
-- * It counts from the newest on: rows that are dead to us, but not to an old snapshot, are the oldest.
case {of}.kind
  when 'queue' then (select count(*) from (
    select from {schema}.job where queue = {of}.name and state = 'x' and limited
    order by seq desc limit {of}.concurrency) r)
  else (select count(*) from (
    select from {schema}.job
    where task = split_part({of}.name, '/', 1) and step = split_part({of}.name, '/', 2) and state = 'x' and limited
    order by seq desc limit {of}.concurrency) r) end
