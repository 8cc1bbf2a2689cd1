-- Certificate revocation lists (RFC 5280 §5).

-- How many revocations there were, for each issuer certificate, spread over rows so that revocations of one issuer do not
-- wait for each other. The sum never falls; a list that was built at a lower sum lacks something.
CREATE TABLE crl_changes (
  issuer_fingerprint bytea NOT NULL,
  slot smallint NOT NULL, -- Below zero for bulk revocations, which set chancery.bulk_revocation in their transactions.
  changes bigint NOT NULL,
  PRIMARY KEY (issuer_fingerprint, slot)
) WITH (fillfactor = 50);

CREATE FUNCTION count_revocations() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_bulk boolean := coalesce(current_setting('chancery.bulk_revocation', true), '') = 'on';
BEGIN
  INSERT INTO crl_changes (issuer_fingerprint, slot, changes)
  SELECT issuer_fingerprint, CASE WHEN is_bulk THEN -1 - pg_backend_pid() % 16 ELSE pg_backend_pid() % 16 END, count(*)
    FROM changed WHERE revoked_at IS NOT NULL GROUP BY issuer_fingerprint ORDER BY issuer_fingerprint
  ON CONFLICT (issuer_fingerprint, slot) DO UPDATE SET changes = crl_changes.changes + EXCLUDED.changes;
  RETURN NULL;
END $$;

-- For each statement: a bulk revocation of thousands counts once. Certificates change by revocation only.
CREATE TRIGGER certificates_count_revocations AFTER UPDATE ON certificates
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_revocations();

-- The last CRL number drawn for an issuer. The key is SHA-256 of its name and key identifier: a relying party knows it
-- by
-- them, and they survive a renewal of its certificate.
CREATE TABLE crl_numbers (
  issuer_key bytea PRIMARY KEY,
  last_number bigint NOT NULL
);

-- The list that is served, for each scope: all certificates of an issuer (shards = 1) or the part with one remainder of
-- the serial number.
CREATE TABLE crls (
  issuer_key bytea NOT NULL,
  shards integer NOT NULL,
  shard integer NOT NULL,
  issuer_id text NOT NULL, -- Name of the issuer in the path.
  number bigint NOT NULL,
  changes bigint NOT NULL, -- Sum of crl_changes before the first row was read, and how many of them are bulk revocations.
  bulk_changes bigint NOT NULL DEFAULT 0,
  this_update timestamptz NOT NULL,
  next_update timestamptz NOT NULL,
  entries integer NOT NULL,
  bytes bigint NOT NULL,
  started_at timestamptz NOT NULL,
  built_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (issuer_key, shards, shard)
);

-- DER of lists in pieces, joined in order: served lists, lists that are being built, and predecessors that a request
-- may
-- still read.
CREATE TABLE crl_pieces (
  issuer_key bytea NOT NULL,
  number bigint NOT NULL,
  piece integer NOT NULL,
  der bytea NOT NULL,
  PRIMARY KEY (issuer_key, number, piece)
);
-- DER does not compress, and to try costs more than writing it.
ALTER TABLE crl_pieces ALTER COLUMN der SET STORAGE EXTERNAL;

-- Shard counts that certificates were issued under: their lists are kept up for as long as such certificates live.
CREATE TABLE crl_shardings (
  shards integer PRIMARY KEY,
  last_used_at timestamptz NOT NULL DEFAULT now()
);
