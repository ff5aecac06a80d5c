-- ready | scheduled -> (nothing). Undoes those of a repeated enqueue that had already run to an end.
-- Runs in the transaction of the repetition, as its own statement: if the first enqueue did commit
-- and its job was settled before the repetition inserted it again, that settling committed before
-- this statement's snapshot, so the archive shows it (I1).
delete from {schema}.job j
using jsonb_array_elements_text(%(ids)s::jsonb) as g(id)
where j.id = g.id::uuid and j.claim = 0 and j.state in ('r', 's')
  and exists (select 1 from {schema}.archive a where a.id = j.id)
returning j.id::text
