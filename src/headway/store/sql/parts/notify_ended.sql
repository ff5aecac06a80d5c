-- Notifies of the end of waiting jobs: callers that await one of them, and workers that may admit others of its key.
-- * A job that held room frees it. The next job of an ordered line may follow when its head has gone.
-- * The notification names one job of each key, not the key: everybody who can connect hears it.
{part notify_awaited}
union all
select pg_notify(%(channel)s::text, 'room ' || min(id::text))
from gone where (holds or (ordered and state = 'b')) and %(channel)s::text is not null group by key
