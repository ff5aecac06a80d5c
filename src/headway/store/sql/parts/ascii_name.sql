-- Whether {of} is a name in ASCII: printable, without spaces at its ends.
-- * It is one pattern: a plain enqueue evaluates it for each row.
{of} ~ '^[!-~]([ -~]*[!-~])?$'
