-- Orders, their authorizations and challenges (RFC 8555 §7.1).
--
-- Rows on the way to a certificate have no foreign keys. Accounts and authorizations stay while a row points at them, and
-- the statement that inserts a row has already looked up the account.
-- Status columns hold the words of RFC 8555; the statements' guards decide which moves happen. CHECK constraints would cost
-- each write a tenth (docs/decisions/no-status-checks.md).

-- A challenge is a member of its authorization: the offered types are a list, and only the triggered ones have state.
CREATE TABLE authorizations (
  id uuid PRIMARY KEY, -- Ends in 0; a challenge's id is the same with the digit of its type.
  account_id uuid NOT NULL,
  identifier_type text NOT NULL,
  identifier_value text NOT NULL,
  wildcard boolean NOT NULL,
  -- Valid without a challenge, because of a credential or of `challenges.auto_accept`. An order that has to show control
  -- does not reuse it.
  approved boolean NOT NULL DEFAULT false,
  status text NOT NULL DEFAULT 'pending',
  expires_at timestamptz NOT NULL,
  token text NOT NULL,
  offered text[] NOT NULL,
  -- Challenge type -> {status, tries, validated, error}; a type that is absent is pending.
  attempts jsonb NOT NULL DEFAULT '{}',
  validating_by integer, -- The instance that validates a challenge of this authorization at the moment.
  validating_since timestamptz,
  -- Findings of the deciding attempt: {type, try, at, ms, result, …, steps}, a few kilobytes at most
  -- (src/domain/validation-evidence.ts). Null until decided.
  evidence jsonb
) WITH (fillfactor = 80, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
        autovacuum_vacuum_scale_factor = 0.05);
-- As for orders.
ALTER TABLE authorizations ALTER COLUMN offered SET STATISTICS 0, ALTER COLUMN attempts SET STATISTICS 0,
                           ALTER COLUMN evidence SET STATISTICS 0;
-- Reuse by a new order of the account. One account may have thousands for a name; the order takes the one that lasts longest.
CREATE INDEX authorizations_reusable ON authorizations (account_id, identifier_value, wildcard, expires_at)
  WHERE status = 'valid';
-- Challenges left behind by an instance that is gone.
CREATE INDEX authorizations_validating ON authorizations (validating_since) WHERE validating_by IS NOT NULL;

-- A fifth of ten million rows, the usual share, is long to wait for and much to do at once. Most updates stay on their heap
-- page, so a vacuum that comes often finds little and skips the indexes.
CREATE TABLE orders (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL,
  -- 'open' covers pending, ready and the invalidity that follows from an authorization or from expiry.
  status text NOT NULL DEFAULT 'open',
  identifiers jsonb NOT NULL,
  authorization_ids uuid[] NOT NULL,
  profile text NOT NULL,
  not_before timestamptz,
  not_after timestamptz,
  expires_at timestamptz NOT NULL,
  error jsonb,
  certificate_id uuid,
  replaces text, -- The certID of the certificate that this order replaces (RFC 9773 §5), as the order shows it.
  -- 128 bits of a hash of the new-order request (domain/order-request.ts). Not indexed: order_claims is.
  request_key uuid,
  -- The limits of new orders do not count it (RFC 9773 §5): it renewed a certificate that was due, and names no others.
  is_exempt boolean
) WITH (fillfactor = 80, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
        autovacuum_vacuum_scale_factor = 0.05);
-- No plan depends on how often a value of these columns occurs. To sort 30,000 of them took 0.6 s of the 1.1 s of an ANALYZE.
ALTER TABLE orders ALTER COLUMN identifiers SET STATISTICS 0, ALTER COLUMN authorization_ids SET STATISTICS 0;
-- An account's orders, oldest first (the key is time-ordered).
CREATE INDEX orders_account ON orders (account_id, id);

-- Which open order answers an equal new-order: one row for each open order without a predecessor, gone with finalize or
-- expiry. An index of orders would name orders.status, and then no change of status could stay on its heap page.
-- Unlogged: a crash of the database forgets only that an equal order exists.
CREATE UNLOGGED TABLE order_claims (
  request_key uuid PRIMARY KEY,
  order_id uuid NOT NULL,
  expires_at timestamptz NOT NULL
);

-- The order that replaces a certificate: one at a time, and a further one only when that order became invalid.
CREATE TABLE replacements (
  certificate_id uuid PRIMARY KEY,
  order_id uuid NOT NULL,
  request_key uuid NOT NULL
);

-- Orders and certificates of an account on a day (UTC), while `quotas.enabled`.
CREATE TABLE account_usage (
  day date NOT NULL,
  account_id uuid NOT NULL,
  orders integer NOT NULL DEFAULT 0,
  certificates integer NOT NULL DEFAULT 0,
  granted integer NOT NULL, -- How many that the last statement counted together were within the quota.
  PRIMARY KEY (day, account_id)
) WITH (fillfactor = 70);
