-- Revocations by a bulk job are counted apart, so that their CRL comes once, at its end. Relied on from release 0.2; the
-- release before counts them and builds lists as before.

-- Of `changes`, those by bulk jobs.
ALTER TABLE crls ADD COLUMN bulk_changes bigint NOT NULL DEFAULT 0;

-- Slots below zero are for bulk jobs, whose transactions set chancery.bulk_revocation.
CREATE OR REPLACE FUNCTION count_revocations() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_bulk boolean := coalesce(current_setting('chancery.bulk_revocation', true), '') = 'on';
BEGIN
  INSERT INTO crl_changes (issuer_fingerprint, slot, changes)
  SELECT issuer_fingerprint, CASE WHEN is_bulk THEN -1 - pg_backend_pid() % 16 ELSE pg_backend_pid() % 16 END, count(*)
    FROM changed WHERE revoked_at IS NOT NULL GROUP BY issuer_fingerprint ORDER BY issuer_fingerprint
  ON CONFLICT (issuer_fingerprint, slot) DO UPDATE SET changes = crl_changes.changes + EXCLUDED.changes;
  RETURN NULL;
END $$;
