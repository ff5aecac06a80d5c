-- Stores what is wrong with a worker, for `headway health` and for the rescue of its jobs.
-- * The next heartbeat overwrites it.
-- * A locked row is skipped: no lock is worth waiting for here.
update {schema}.worker set trouble = %(trouble)s
where id = (select id from {schema}.worker where id = %(worker)s for update skip locked)
returning id
