-- ready | scheduled | blocked -> (nothing). Undoes those of a repeated enqueue that had already run
-- to an end (functions/3_jobs.sql).
-- Runs in the transaction of the repetition, as its own statement: if the first enqueue did commit
-- and its job was settled before the repetition inserted it again, that settling committed before
-- this statement's snapshot, so the archive shows it (I1), or for an hour `unkept`.
select id::text from {schema}.withdraw_jobs(%(ids)s::jsonb) as id
