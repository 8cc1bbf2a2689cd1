-- Acts of administrators that wait for another person's decision.
-- going back: an older release asks nobody, and lets one person do what the configuration wants two for.

CREATE TABLE admin_approvals (
  id uuid PRIMARY KEY,
  act text NOT NULL,
  operation text NOT NULL, -- Of the Admin API.
  input text NOT NULL, -- Parameters, query and body as they were sent; they are checked again when they are approved.
  summary text NOT NULL,
  facts jsonb NOT NULL, -- What would change: names with the text before and after.
  most integer, -- How many things it may reach.
  reason text NOT NULL,
  maker_id uuid NOT NULL, -- No foreign keys: a decision outlives its people.
  maker jsonb NOT NULL, -- The author, without a session.
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  decision text CHECK (decision IN ('approved', 'rejected', 'withdrawn')),
  decided_at timestamptz,
  decided_by_id uuid,
  decided_by text,
  decision_reason text,
  result bytea -- The reply for the maker, sealed; deleted when it is collected, or with the next request after it has expired.
);
CREATE INDEX admin_approvals_waiting ON admin_approvals (maker_id) WHERE decision IS NULL;
