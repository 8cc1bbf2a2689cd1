-- Signed timestamps of transparency logs (RFC 6962), for certificates submitted after issuance. Relied on from release 0.2.

CREATE TABLE signed_certificate_timestamps (
  certificate_id uuid NOT NULL,
  log_url text NOT NULL,
  -- SHA-256 of the log's key.
  log_id bytea NOT NULL,
  signed_at timestamptz NOT NULL,
  extensions bytea NOT NULL,
  -- As the log gave it: hash, algorithm, length, signature.
  signature bytea NOT NULL,
  -- Whether the log's key was known and the signature right.
  verified boolean NOT NULL,
  PRIMARY KEY (certificate_id, log_url)
);
