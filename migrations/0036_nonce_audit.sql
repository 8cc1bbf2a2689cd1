-- Used nonces, while nonce.audit_consumed is set. Relied on from release 0.2.
CREATE TABLE nonce_audit (
  nonce text NOT NULL,
  consumed_at timestamptz NOT NULL
);
-- Rows come in the order of their time and leave by it.
CREATE INDEX nonce_audit_age ON nonce_audit USING brin (consumed_at) WITH (autosummarize = on);
