-- Replacement orders, renewal advice, equal orders, and how far the clean-up has come. Relied on from release 0.1.
--
-- The previous release ignores all of it: the columns are nullable and the tables are its successor's alone.

-- The certID of the certificate that an order replaces (RFC 9773 §5), as the order shows it.
ALTER TABLE orders ADD COLUMN replaces text;
-- What a new-order asked for, as 128 bits of a hash (domain/order-request.ts). Not indexed: order_claims is.
ALTER TABLE orders ADD COLUMN request_key uuid;

-- Which open order answers an equal new-order: one row for each open order without a predecessor, gone with finalize or
-- expiry. A table of its own, because an index over the open orders would name orders.status, and then no change of
-- status could stay on its heap page. Unlogged: what a crash of the database forgets is only that an equal order exists.
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

-- "Renew now": a window set by the operator in place of the one that follows from the lifetime.
CREATE TABLE renewal_advice (
  certificate_id uuid PRIMARY KEY,
  window_start timestamptz NOT NULL,
  window_end timestamptz NOT NULL,
  explanation_url text,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (window_start < window_end)
);

-- Keys are time-ordered, so a walk along a primary key meets rows in the order of their expiry, without an index on it.
CREATE TABLE cleanup_progress (
  task text PRIMARY KEY,
  after_id uuid NOT NULL
);
