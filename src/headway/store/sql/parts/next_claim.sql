-- The number of a job's next claim. The upper half counts, and the lower half is random. So no claim repeats a number,
-- even after a failover that lost some claims (I3).
(((claim >> 32) + 1) << 32) + floor(random() * 4294967296)::bigint
