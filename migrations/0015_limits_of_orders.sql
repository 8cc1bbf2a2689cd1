-- Limits of replacements, and reuse of the longest valid authorization without a sort. Relied on from release 0.2.
--
-- The previous release leaves the column null, which counts the order, and finds its authorizations by the new index as by the old one.

-- The limits of new orders do not count this one (RFC 9773 §5): it renewed a certificate that was due, and names no others.
ALTER TABLE orders ADD COLUMN is_exempt boolean;

-- An account may have thousands of valid authorizations for one name; an order takes the one that lasts longest. On millions of rows
-- make the index before the update, with CREATE INDEX CONCURRENTLY and the first of the two names. One that was interrupted is of no use.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('authorizations_reusable_until') AND NOT indisvalid) THEN
    DROP INDEX authorizations_reusable_until;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS authorizations_reusable_until
  ON authorizations (account_id, identifier_value, wildcard, expires_at) WHERE status = 'valid';
DROP INDEX authorizations_reusable;
ALTER INDEX authorizations_reusable_until RENAME TO authorizations_reusable;
