-- A serial number is unique for its issuer (RFC 5280 §4.1.2.2): CAs that choose it themselves may choose the same. Relied on
-- from release 0.2; the release before cannot import certificates from now on, and does all else.
-- On millions of certificates make the index before the update, with CREATE UNIQUE INDEX CONCURRENTLY and this name.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_serial_issuer') AND NOT indisvalid) THEN
    DROP INDEX certificates_serial_issuer;
  END IF;
END $$;
CREATE UNIQUE INDEX IF NOT EXISTS certificates_serial_issuer ON certificates (serial_number, issuer_fingerprint);
ALTER TABLE certificates DROP CONSTRAINT IF EXISTS certificates_serial_number_key;
