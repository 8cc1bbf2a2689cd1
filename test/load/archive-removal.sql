-- How the oldest million leave: deleted in pages, or by the partitions that hold nothing else. After archive-hot-path.sql.
\timing on
SET synchronous_commit = off;
\echo one serial number in two partitions, which the index of the plain table refuses:
BEGIN;
INSERT INTO parted
SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || substr(md5(random()::text), 1, 20))::uuid,
       order_id, serial_number, issuer_fingerprint, not_after, der
  FROM parted_00 LIMIT 1;
ROLLBACK;
\echo pages of 1000 of the plain table:
SELECT pg_size_pretty(pg_table_size('plain')) AS heap, pg_size_pretty(pg_indexes_size('plain')) AS indexes;
DO $$
DECLARE
  gone integer;
  total integer := 0;
BEGIN
  LOOP
    DELETE FROM plain WHERE id IN (SELECT id FROM plain ORDER BY not_after LIMIT 1000);
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    COMMIT;
    EXIT WHEN total >= 1000000;
  END LOOP;
END $$;
VACUUM (VERBOSE) plain;
SELECT pg_size_pretty(pg_table_size('plain')) AS heap, pg_size_pretty(pg_indexes_size('plain')) AS indexes;
\echo the oldest partition:
SELECT count(*) FROM parted_00;
ALTER TABLE parted DETACH PARTITION parted_00 CONCURRENTLY;
DROP TABLE parted_00;
