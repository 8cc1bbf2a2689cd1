-- Certificates by SHA-256 fingerprint. Relied on from release 0.2; the release before leaves the index alone.
-- On millions of certificates make it before the update, with CREATE INDEX CONCURRENTLY and this name.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_fingerprint') AND NOT indisvalid) THEN
    DROP INDEX certificates_fingerprint;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS certificates_fingerprint ON certificates (sha256(der));
-- No plan needs statistics of the expression, which double the ANALYZE of certificates.
ALTER INDEX certificates_fingerprint ALTER COLUMN 1 SET STATISTICS 0;
