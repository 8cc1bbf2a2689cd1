-- Certificates: issuers, intents, revocation in bulk, blocked keys, renewal advice and transparency.

-- Issuer certificates that have signed something, by SHA-256 of the certificate: what a download sends after the leaf.
CREATE TABLE issuers (
  fingerprint bytea PRIMARY KEY,
  certificate bytea NOT NULL,
  chain bytea[] NOT NULL, -- From the issuer upwards, itself included.
  alternate_chains jsonb, -- DER of further chains of the issuer's key, in base64; for issuers that are not the signer's.
  created_at timestamptz NOT NULL DEFAULT now()
);

-- A TBS is written here before the signer is asked, and deleted when the certificate is recorded or the order has
-- failed.
-- A signed certificate is therefore always known here or in certificates.
CREATE TABLE issuance_intents (
  certificate_id uuid PRIMARY KEY,
  order_id uuid UNIQUE,
  account_id uuid,
  serial_number bytea NOT NULL,
  issuer_fingerprint bytea NOT NULL,
  issuer_id text NOT NULL,
  tbs bytea NOT NULL,
  spki_sha256 bytea,
  instance_id integer NOT NULL, -- The instance that is issuing; when it is gone, recovery finishes its work.
  -- The instance that knows that the signer has not signed; negative while it has the signer asked again, null where none
  -- knows. It counts only beside the same instance_id.
  unsigned_by integer,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- Second half of a serial number where `ca.serial_source` is `database`; the first half is random. Each front thread
-- takes a range of numbers at a time.
CREATE SEQUENCE certificate_serial_ranges AS bigint;

-- Autovacuum as for orders.
CREATE TABLE certificates (
  id uuid PRIMARY KEY,
  account_id uuid, -- Absent for certificates that the service issues to itself.
  order_id uuid UNIQUE, -- Absent for imported ones too.
  -- Unique for its issuer (RFC 5280 §4.1.2.2): CAs that choose it themselves may choose the same.
  serial_number bytea NOT NULL,
  issuer_fingerprint bytea NOT NULL,
  names text[] NOT NULL,
  not_before timestamptz NOT NULL,
  not_after timestamptz NOT NULL,
  der bytea NOT NULL, -- Empty where a serial number was revoked and the certificate is not known.
  issued_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  revocation_reason smallint,
  -- SHA-256 of the certified SubjectPublicKeyInfo, for `reuse_key: false`. The index certificates_spki is made when the first
  -- profile asks (src/store/csr-profile-store.ts): other installations do not pay for it.
  spki_sha256 bytea,
  backend text -- The CA that issued it; null for the signer.
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
        autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX certificates_serial_issuer ON certificates (serial_number, issuer_fingerprint);
-- Certificates without an order, as the list of an account's certificates finds them.
CREATE INDEX certificates_imported ON certificates (account_id, id) WHERE order_id IS NULL;
-- Expiry, for lists and warnings. Entries come in order while lifetimes are alike, and equal seconds share one.
CREATE INDEX certificates_not_after ON certificates (not_after);
-- Revoked certificates of an issuer in a fixed order, readable without touching the certificates themselves. No issuance
-- writes to it, as only a revocation makes the condition true.
CREATE INDEX certificates_revoked ON certificates (issuer_fingerprint, id)
  INCLUDE (serial_number, revoked_at, revocation_reason, not_after) WHERE revoked_at IS NOT NULL;
CREATE INDEX certificates_fingerprint ON certificates (sha256(der));
-- No plan needs statistics of the expression, which double the ANALYZE of certificates.
ALTER INDEX certificates_fingerprint ALTER COLUMN 1 SET STATISTICS 0;
CREATE INDEX certificates_names ON certificates USING gin (names);

-- Every name, and what is left of it without its first label, its first two, and so on.
CREATE FUNCTION name_suffixes(names text[]) RETURNS text[]
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  suffixes text[] := '{}';
  name text;
  dot integer;
BEGIN
  FOREACH name IN ARRAY names LOOP
    LOOP
      suffixes := suffixes || name;
      dot := strpos(name, '.');
      EXIT WHEN dot = 0;
      name := substr(name, dot + 1);
    END LOOP;
  END LOOP;
  RETURN suffixes;
END
$$;
-- Certificates by a name and all below it.
CREATE INDEX certificates_suffixes ON certificates USING gin (name_suffixes(names));
-- The share of a suffix is counted in a sample (certificate-filter.ts).
ALTER INDEX certificates_suffixes ALTER COLUMN 1 SET STATISTICS 0;

-- Keys that must never be certified again, by SHA-256 of the SubjectPublicKeyInfo.
CREATE TABLE blocked_keys (
  spki_sha256 bytea PRIMARY KEY,
  blocked_at timestamptz NOT NULL DEFAULT now(),
  certificate_id uuid, -- The certificate whose revocation for keyCompromise blocked the key.
  by_administrator boolean NOT NULL DEFAULT false
);
CREATE INDEX blocked_keys_time ON blocked_keys (blocked_at, spki_sha256);

-- Bulk revocations: jobs that any instance can continue.
CREATE TABLE bulk_revocations (
  id uuid PRIMARY KEY,
  filter jsonb NOT NULL, -- As in the request.
  reason smallint NOT NULL,
  author jsonb NOT NULL, -- Who asked for it, for the audit log.
  at_most integer, -- More certificates than these were not confirmed: the job ends as 'refused'. Null for any number.
  status text NOT NULL DEFAULT 'matching', -- 'matching': the certificates are being listed; 'revoking'; 'done'; 'refused'.
  -- Both phases go through the certificates in the order of their ids.
  after_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  total_matched integer NOT NULL DEFAULT 0,
  revoked integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  obstacle text, -- Why the last attempt, which is repeated, failed; null as soon as one succeeds.
  created_at timestamptz NOT NULL DEFAULT now(),
  progressed_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
CREATE INDEX bulk_revocations_open ON bulk_revocations (progressed_at) WHERE status <> 'done';

CREATE TABLE bulk_revocation_certificates (
  job_id uuid NOT NULL REFERENCES bulk_revocations ON DELETE CASCADE,
  certificate_id uuid NOT NULL,
  serial_number bytea NOT NULL,
  outcome text, -- Why it was not revoked; null for one that was, or whose turn has not come: the job's after_id says which.
  PRIMARY KEY (job_id, certificate_id)
) WITH (fillfactor = 80);

-- "Renew now": a window set by the operator in place of the one that follows from the lifetime.
CREATE TABLE renewal_advice (
  certificate_id uuid PRIMARY KEY,
  window_start timestamptz NOT NULL,
  window_end timestamptz NOT NULL,
  explanation_url text,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (window_start < window_end)
);

-- Signed timestamps of transparency logs (RFC 6962), for certificates submitted after issuance.
CREATE TABLE signed_certificate_timestamps (
  certificate_id uuid NOT NULL,
  log_url text NOT NULL,
  log_id bytea NOT NULL, -- SHA-256 of the log's key.
  signed_at timestamptz NOT NULL,
  extensions bytea NOT NULL,
  signature bytea NOT NULL, -- As the log gave it: hash, algorithm, length, signature.
  verified boolean NOT NULL, -- Whether the log's key was known and the signature right.
  PRIMARY KEY (certificate_id, log_url)
);
