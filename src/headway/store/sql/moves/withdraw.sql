-- ready | scheduled | blocked -> (nothing): undoes a repeated enqueue of jobs that had already ended.
-- * It runs in the transaction of the repetition, as a statement of its own. If the first enqueue committed and its job
--   ended before the repetition inserted it again, this snapshot sees that end: in the archive (I1), or in `unkept` for
--   an hour.
select id::text from {schema}.withdraw_jobs(%(ids)s::jsonb) as id
