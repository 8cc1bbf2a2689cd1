-- What people and clients decided, and what of it a fail-over lost (docs/decisions/decisions-outlive-the-database.md).
-- going back: what a fail-over loses of decisions stays lost, and nobody is told of it.

-- One row. A copy has the same: whoever makes one for a service of its own gives it another (docs/operations/failover.md).
CREATE TABLE database_identity (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  id uuid NOT NULL,
  key bytea NOT NULL, -- Of the seals of decisions.
  -- System identifier, timeline and oid that were compared with the records. No session begins in another one before it is compared, too.
  compared text,
  -- Those that were compared before it, the oldest first: what was decided in them is this database's own.
  former text[] NOT NULL DEFAULT '{}'
);
INSERT INTO database_identity (id, key)
VALUES (gen_random_uuid(), decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

-- As certificates_seq: every decision up to here is in this database, or in lost_decisions.
ALTER TABLE signer_marks ADD COLUMN decisions_seq bigint NOT NULL DEFAULT 0;

CREATE TABLE lost_decisions (
  id uuid PRIMARY KEY,
  decided_at timestamptz NOT NULL,
  decided_by text NOT NULL,
  act text NOT NULL,
  subject text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('restored', 'partly', 'lost', 'overtaken', 'entry')),
  details jsonb NOT NULL,
  since timestamptz, -- Time of the last commit that the database had; null where it does not say.
  found_at timestamptz NOT NULL DEFAULT now(),
  told_at timestamptz, -- Set once an alarm has told of it.
  accepted_at timestamptz -- Set once an operator has said that it needs nothing more.
);
CREATE INDEX lost_decisions_found ON lost_decisions (found_at DESC, id);
CREATE INDEX lost_decisions_untold ON lost_decisions (id) WHERE told_at IS NULL;
