-- concurrently
-- Revoked certificates of an issuer by the last octet of the serial number, for parts of a CRL. Readable without touching the
-- certificates themselves; no issuance writes to it. certificates_revoked stays for lists of certificates and the previous release.
-- going back: parts of a CRL take longer to build.
CREATE INDEX CONCURRENTLY certificates_revoked_octets ON certificates
  (issuer_fingerprint, get_byte(serial_number, length(serial_number) - 1), id)
  INCLUDE (serial_number, revoked_at, revocation_reason, not_after) WHERE revoked_at IS NOT NULL;
-- In place of a BRIN index, which other engines do not have; rows come in the order of their time, so that it stays as cheap.
CREATE INDEX CONCURRENTLY nonce_audit_time ON nonce_audit (consumed_at);
DROP INDEX CONCURRENTLY IF EXISTS nonce_audit_age;
