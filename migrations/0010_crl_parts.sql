-- A part of a CRL (crl.shards) is due only when one of its own certificates was revoked.
-- going back: the release before makes all parts due by each revocation, and always builds the complete list

-- Revocations are counted by the last octet of the serial number, which a part can tell (src/domain/crl-scope.ts): slot 0 to
-- 255, and -1 to -256 for bulk revocations. What the previous release counted by connection stays in the sums.
CREATE OR REPLACE FUNCTION count_revocations() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_bulk boolean := coalesce(current_setting('chancery.bulk_revocation', true), '') = 'on';
BEGIN
  INSERT INTO crl_changes (issuer_fingerprint, slot, changes)
  SELECT issuer_fingerprint, CASE WHEN is_bulk THEN -1 - octet ELSE octet END, count(*)
    FROM (SELECT issuer_fingerprint, get_byte(serial_number, length(serial_number) - 1) AS octet
            FROM changed WHERE revoked_at IS NOT NULL) revoked
   GROUP BY issuer_fingerprint, octet
   -- Two statements take the rows in one order, so that neither waits for the other in a circle.
   ORDER BY issuer_fingerprint, octet
  ON CONFLICT (issuer_fingerprint, slot) DO UPDATE SET changes = crl_changes.changes + EXCLUDED.changes;
  RETURN NULL;
END $$;
-- Waits for revocations that still run the former function, and would count in a slot of another part.
LOCK TABLE certificates IN SHARE ROW EXCLUSIVE MODE;

-- The sums over the slots of the list itself. The previous release leaves them as they are, and so never too high.
ALTER TABLE crls ADD COLUMN part_changes bigint, ADD COLUMN part_bulk_changes bigint;

-- Certificates of the previous release may name the complete list, and keep it for as long as they live.
INSERT INTO crl_shardings (shards) SELECT 1 WHERE EXISTS (SELECT FROM crls WHERE shards = 1) ON CONFLICT DO NOTHING;
