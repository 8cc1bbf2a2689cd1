-- Accounts, orders, authorizations, issuance intents, certificates. Relied on from release 0.1.
--
-- Keys are version 7 UUIDs made by the application. Rows on the issuance path carry no foreign keys: accounts and
-- authorizations are never deleted while something points at them, and the statement that inserts a row has the
-- account in its FROM; a reference check for each row would only repeat that look-up.
-- Status columns hold the words of RFC 8555; the statements' guards decide which moves happen.

-- Issuer certificates that have signed something, by SHA-256 of the certificate: what a download sends after the leaf.
CREATE TABLE issuers (
  fingerprint bytea PRIMARY KEY,
  certificate bytea NOT NULL,
  -- From the issuer upwards, itself included.
  chain bytea[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE accounts (
  id uuid PRIMARY KEY,
  -- RFC 7638 thumbprint of the canonical JWK: one account for one key.
  thumbprint text NOT NULL UNIQUE,
  jwk text NOT NULL,
  -- Rises with every key change, so that a statement prepared under the old key finds no account.
  key_version integer NOT NULL DEFAULT 1,
  status text NOT NULL DEFAULT 'valid' CHECK (status IN ('valid', 'deactivated', 'revoked')),
  contacts text[] NOT NULL DEFAULT '{}',
  terms_agreed boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- A challenge is a member of its authorization: the offered types are a list, and only the triggered ones have state.
CREATE TABLE authorizations (
  -- Ends in 0; a challenge's id is the same with the digit of its type.
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL,
  identifier_type text NOT NULL,
  identifier_value text NOT NULL,
  wildcard boolean NOT NULL,
  status text NOT NULL DEFAULT 'pending'
    CHECK (status IN ('pending', 'valid', 'invalid', 'deactivated', 'expired', 'revoked')),
  expires_at timestamptz NOT NULL,
  token text NOT NULL,
  offered text[] NOT NULL,
  -- Challenge type -> {status, tries, validated, error}; a type that is absent is pending.
  attempts jsonb NOT NULL DEFAULT '{}',
  -- The instance that validates a challenge of this authorization at the moment.
  validating_by integer,
  validating_since timestamptz
) WITH (fillfactor = 80);

-- Reuse of a valid authorization by a new order of the same account.
CREATE INDEX authorizations_reusable ON authorizations (account_id, identifier_value) WHERE status = 'valid';
-- Challenges left behind by an instance that is gone.
CREATE INDEX authorizations_validating ON authorizations (validating_since) WHERE validating_by IS NOT NULL;

CREATE TABLE orders (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL,
  -- 'open' covers pending, ready and the invalidity that follows from an authorization or from expiry.
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'processing', 'valid', 'invalid')),
  identifiers jsonb NOT NULL,
  authorization_ids uuid[] NOT NULL,
  profile text NOT NULL,
  not_before timestamptz,
  not_after timestamptz,
  expires_at timestamptz NOT NULL,
  error jsonb,
  certificate_id uuid
) WITH (fillfactor = 80);

-- An account's orders, oldest first (the key is time-ordered).
CREATE INDEX orders_account ON orders (account_id, id);

-- What is about to be signed, written before the signer is asked; gone when the certificate is recorded or the order
-- has failed. A certificate that was signed is therefore always known here or in certificates.
CREATE TABLE issuance_intents (
  certificate_id uuid PRIMARY KEY,
  order_id uuid UNIQUE,
  account_id uuid,
  serial_number bytea NOT NULL,
  issuer_fingerprint bytea NOT NULL,
  issuer_id text NOT NULL,
  tbs bytea NOT NULL,
  -- The instance that is issuing; when it is gone, recovery finishes its work.
  instance_id integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE certificates (
  id uuid PRIMARY KEY,
  -- Absent for certificates that the service issues to itself.
  account_id uuid,
  order_id uuid UNIQUE,
  serial_number bytea NOT NULL UNIQUE,
  issuer_fingerprint bytea NOT NULL,
  names text[] NOT NULL,
  not_before timestamptz NOT NULL,
  not_after timestamptz NOT NULL,
  der bytea NOT NULL,
  issued_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  revocation_reason smallint
);

-- Keys that must never be certified again (revoked for keyCompromise), by SHA-256 of the SubjectPublicKeyInfo.
CREATE TABLE blocked_keys (
  spki_sha256 bytea PRIMARY KEY,
  blocked_at timestamptz NOT NULL DEFAULT now(),
  -- The certificate whose revocation blocked the key.
  certificate_id uuid
);

-- Instances that are running: each holds the advisory lock (712100, its id) on a connection of its own, so that a dead
-- instance is known at once and without a heartbeat.
CREATE FUNCTION live_instances() RETURNS SETOF integer LANGUAGE sql STABLE AS $$
  SELECT objid::bigint::integer FROM pg_locks
   WHERE locktype = 'advisory' AND classid = 712100 AND objsubid = 2 AND granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

-- Second half of a serial number where `ca.serial_source` is `database`; the first half is random. Each front thread
-- takes a range of numbers at a time.
CREATE SEQUENCE certificate_serial_ranges AS bigint;
