-- What the signer has recorded and cannot come back (docs/decisions/records-of-the-signer.md).
-- going back: what was given up is only in the log.

CREATE TABLE signer_given_up (
  chain bytea NOT NULL, -- As in signer_marks.
  sequence bigint NOT NULL, -- Line of the audit chain.
  serial_number bytea NOT NULL,
  reason text NOT NULL,
  given_up_at timestamptz NOT NULL DEFAULT now(),
  accepted_at timestamptz, -- Set once an operator has said that it stays lost.
  PRIMARY KEY (chain, sequence)
);
