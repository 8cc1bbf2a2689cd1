-- What becomes of the uses of a compromised key (docs/decisions/compromised-keys.md).
-- going back: an older release does not find accounts by their keys.

-- As the revocation of their credential does: whoever has the key cannot use what it has validated.
CREATE FUNCTION revoke_accounts_with(keys bytea[]) RETURNS bigint
  LANGUAGE sql SET enable_seqscan = off AS $$
  -- accounts_spki; authorizations_reusable and authorizations_validating
  WITH revoked AS (
    UPDATE accounts SET status = 'revoked', updated_at = now()
     WHERE account_spki_sha256(jwk) = ANY (keys) AND status = 'valid' RETURNING id
  ), deactivated AS (
    UPDATE authorizations SET status = 'deactivated', validating_by = NULL, validating_since = NULL
     WHERE account_id = ANY (ARRAY(SELECT id FROM revoked)) AND (status = 'valid' OR status = 'pending' AND validating_by IS NOT NULL)
  )
  SELECT count(*) FROM revoked
$$;

CREATE FUNCTION revoke_accounts_of_blocked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM revoke_accounts_with(ARRAY(SELECT spki_sha256 FROM blocked));
  RETURN NULL;
END $$;
-- Whoever blocks it: an administrator, an incident, a revocation, a proof, or security.blocked_keys_file.
CREATE TRIGGER blocked_keys_revoke_accounts AFTER INSERT ON blocked_keys
  REFERENCING NEW TABLE AS blocked FOR EACH STATEMENT EXECUTE FUNCTION revoke_accounts_of_blocked();

-- As in 0006, and what still waits has the new reason.
CREATE OR REPLACE FUNCTION revoke_at_backend() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO backend_revocations AS r (certificate_id, backend, der, reason)
  VALUES (NEW.id, NEW.backend, NEW.der, coalesce(NEW.revocation_reason, 0))
  ON CONFLICT (certificate_id) DO UPDATE SET reason = EXCLUDED.reason, due_at = now() WHERE r.reason <> EXCLUDED.reason;
  RETURN NULL;
END $$;
-- A compromise that is known later is told, too (CA/Browser Forum BR 7.2.2). The list sees it by certificates_count_revocations.
CREATE TRIGGER certificates_tell_reason_at_backend AFTER UPDATE OF revocation_reason ON certificates
  FOR EACH ROW WHEN (OLD.revoked_at IS NOT NULL AND NEW.revocation_reason IS DISTINCT FROM OLD.revocation_reason AND NEW.backend IS NOT NULL)
  EXECUTE FUNCTION revoke_at_backend();
