-- Notes what is wrong with a worker, for `headway health` and for the rescue of its jobs. The next heartbeat
-- overwrites it. A row that somebody else has locked is left alone: nothing waits for a note.
update {schema}.worker set trouble = %(trouble)s
where id = (select id from {schema}.worker where id = %(worker)s for update skip locked)
returning id
