-- The name of a job's handler: its task, or a flow's step as `flow/step`.
-- * Not a generated column: it would add the name to every version of a row, in the table and in WAL.
case {of.}step when '' then {of.}task else {of.}task || '/' || {of.}step end
