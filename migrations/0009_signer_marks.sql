-- How far this database has what its signers have recorded (docs/decisions/records-of-the-signer.md).
-- going back: the database is not compared with what the signer has recorded.

-- The mark lies in the database, so an older copy has an older mark, and a comparison goes on from there.
CREATE TABLE signer_marks (
  chain bytea PRIMARY KEY, -- Identity of a signer's audit chain; its numbers below are places in that chain.
  certificates_seq bigint NOT NULL DEFAULT 0, -- Every certificate signed up to here is in this database.
  revocations_seq bigint NOT NULL DEFAULT 0, -- So is every revocation up to this part of this line.
  revocations_part integer NOT NULL DEFAULT 0,
  behind_since timestamptz, -- Set while the database is known to lack something.
  updated_at timestamptz NOT NULL DEFAULT now()
);
