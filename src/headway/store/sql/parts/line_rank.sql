-- The first column of a line's order, before `seq`. An ordered job has no priority.
-- * The indexes job_line and job_part have the same expression, word for word.
case when {of.}ordered then 0 else -{of.}priority end
