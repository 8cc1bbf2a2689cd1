-- Checks of the audit log's chain are jobs: a long log needs no long request. Relied on from release 0.2; the release
-- before leaves them alone.

CREATE TABLE audit_verifications (
  id uuid PRIMARY KEY,
  -- 'running'; 'done' with a verdict; 'failed' with a reason.
  status text NOT NULL DEFAULT 'running',
  -- Entries.
  checked bigint NOT NULL DEFAULT 0,
  total bigint NOT NULL DEFAULT 0,
  verdict jsonb,
  -- Of the verdict and its time, under the key of the audit log: who owns the database cannot make one.
  seal bytea,
  failure text,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Stands still when the instance that checks has ended.
  progressed_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
-- One at a time: each reads the whole log.
CREATE UNIQUE INDEX audit_verifications_running ON audit_verifications ((true)) WHERE status = 'running';
