-- The payload that names ready lanes of one queue. {of} is their priorities, a space and the queue.
'ready ' || {of}
