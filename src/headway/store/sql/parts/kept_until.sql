-- Until when a job that ends now is kept; null if it is not kept. `t` is its row of `task`, or nulls, and {of} is the
-- state in which it ends.
coalesce(%(now)s, now()) + case
  when t.name is null then case {of} when 'd' then {part keep_succeeded} else {part keep_failed} end
  when {of} = 'd' then t.keep_succeeded else t.keep_failed end
