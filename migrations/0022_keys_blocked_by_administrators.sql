-- Keys that administrators block, and their list. Relied on from release 0.2. While the release before runs beside, its
-- reading of security.blocked_keys_file unblocks them.

ALTER TABLE blocked_keys ADD COLUMN by_administrator boolean NOT NULL DEFAULT false;
CREATE INDEX blocked_keys_time ON blocked_keys (blocked_at, spki_sha256);
