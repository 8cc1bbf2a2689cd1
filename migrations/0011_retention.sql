-- Deletion of old rows, and lists over many certificates. Relied on from release 0.2; the release before leaves all of it alone.

-- When a walk last came to its end: the pause between two of them then holds for all instances and across restarts.
ALTER TABLE cleanup_progress ADD COLUMN finished_at timestamptz;

-- A fifth of ten million rows is long to wait for, and much to do at once. Rows here are written once or updated on their own
-- heap page, so a vacuum that comes often finds little, skips the pages it has seen, and passes over the indexes.
ALTER TABLE certificates SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
                              autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE orders SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
                        autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE authorizations SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
                                autovacuum_vacuum_scale_factor = 0.05);

-- What expires when: for lists, and for whoever will warn of it. Entries come in order for as long as lifetimes are alike, and
-- equal seconds share one. On millions of certificates make it before the update, with CREATE INDEX CONCURRENTLY and this name.
-- One that was interrupted is there and of no use.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_not_after') AND NOT indisvalid) THEN
    DROP INDEX certificates_not_after;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS certificates_not_after ON certificates (not_after);

-- No registration writes to it.
CREATE INDEX IF NOT EXISTS accounts_not_valid ON accounts (id) WHERE status <> 'valid';
