-- Whether the start of a job lets the next job of its key become ready (key_room): under a limit higher than a turn,
-- and under the limits of each key of its handler ({of} says whether these are such).
case when key_limit is null then false when key_limit > 0 then key_limit > {part turn_size} else {of} end
