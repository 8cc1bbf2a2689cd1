-- Certificates without an order: those that were imported, which the list of an account's certificates finds by it, and the service's
-- own. The certificate of an order writes nothing to it. Relied on from release 0.2; the release before leaves it alone.
-- On millions of certificates make it before the update, with CREATE INDEX CONCURRENTLY and this name. One that was interrupted is
-- there and of no use.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_imported') AND NOT indisvalid) THEN
    DROP INDEX certificates_imported;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS certificates_imported ON certificates (account_id, id) WHERE order_id IS NULL;
