-- Certificates by a name. Relied on from release 0.2; the release before uses the index where it is.
-- On millions of certificates make it before the update, with CREATE INDEX CONCURRENTLY and this name.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_names') AND NOT indisvalid) THEN
    DROP INDEX certificates_names;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS certificates_names ON certificates USING gin (names);
