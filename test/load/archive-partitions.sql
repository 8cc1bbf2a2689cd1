-- Would partitions by time carry certificates better than one table whose old rows are deleted?
--
--   psql -f test/load/archive-partitions.sql DATABASE
--   export PGOPTIONS='-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c synchronous_commit=off'  # as the service
--   for t in plain parted plain parted; do
--     sed "s/THE_TABLE/$t/" test/load/archive-hot-path.sql | pgbench -n -M prepared -c 4 -T 20 -f /dev/stdin DATABASE
--   done
--   psql -f test/load/archive-removal.sql DATABASE
--
-- DATABASE is one that test/load/admin-lists.ts has filled. Both tables get the columns that look-ups need, with the same
-- indexes; a unique index of a partitioned table must contain the partition key, so `parted` cannot have that of `plain`.
\timing on
\set ON_ERROR_STOP on
SET synchronous_commit = off;
DROP TABLE IF EXISTS plain, parted;
CREATE TABLE plain (
  id uuid NOT NULL, order_id uuid, serial_number bytea NOT NULL, issuer_fingerprint bytea NOT NULL,
  not_after timestamptz NOT NULL, der bytea NOT NULL
);
CREATE TABLE parted (LIKE plain) PARTITION BY RANGE (id);

-- 30 days each, from the oldest certificate to 60 days from now.
CREATE FUNCTION pg_temp.low(first timestamptz, n integer) RETURNS uuid LANGUAGE sql AS $$
  SELECT rpad(lpad(to_hex((extract(epoch FROM first + n * interval '30 days') * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;
SELECT format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES FROM (%L) TO (%L)',
              lpad(n::text, 2, '0'), pg_temp.low(first, n), pg_temp.low(first, n + 1))
  FROM (SELECT not_before - interval '1 hour' AS first FROM certificates ORDER BY not_after LIMIT 1) f, generate_series(0, 15) n
\gexec

INSERT INTO plain SELECT id, order_id, serial_number, issuer_fingerprint, not_after, substr(der, 1, 16) FROM certificates;
INSERT INTO parted SELECT * FROM plain;
SELECT format(command, t, t)
  FROM unnest(ARRAY['plain', 'parted']) AS t,
       unnest(ARRAY['ALTER TABLE %s ADD PRIMARY KEY (id)',
                    'CREATE INDEX %s_order ON %s (order_id)',
                    'CREATE INDEX %s_fingerprint ON %s (sha256(der))',
                    'CREATE INDEX %s_not_after ON %s (not_after)']) AS command
\gexec
CREATE UNIQUE INDEX plain_serial ON plain (serial_number, issuer_fingerprint);
CREATE INDEX parted_serial ON parted (serial_number, issuer_fingerprint);
VACUUM ANALYZE plain;
VACUUM ANALYZE parted;
SELECT count(*) AS partitions FROM pg_inherits WHERE inhparent = 'parted'::regclass;
