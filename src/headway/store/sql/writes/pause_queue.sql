-- Claims from this queue stop with the next statement; running jobs go on.
insert into {schema}.queue (name, paused_at, paused_by, pause_reason)
values (%(queue)s, coalesce(%(now)s, now()), %(by)s, %(reason)s)
on conflict (name) do update
set paused_at = coalesce(queue.paused_at, excluded.paused_at), paused_by = excluded.paused_by,
    pause_reason = excluded.pause_reason
returning paused_at
