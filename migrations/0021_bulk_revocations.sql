-- Bulk revocations: jobs that any instance goes on with. Relied on from release 0.2; the release before leaves them alone.

CREATE TABLE bulk_revocations (
  id uuid PRIMARY KEY,
  -- As in the request.
  filter jsonb NOT NULL,
  reason smallint NOT NULL,
  -- Who asked for it, for the audit log.
  author jsonb NOT NULL,
  -- 'matching': the certificates are being listed; 'revoking'; 'done'.
  status text NOT NULL DEFAULT 'matching',
  -- Both phases go through the certificates in the order of their ids.
  after_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  total_matched integer NOT NULL DEFAULT 0,
  revoked integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  progressed_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
CREATE INDEX bulk_revocations_open ON bulk_revocations (progressed_at) WHERE status <> 'done';

CREATE TABLE bulk_revocation_certificates (
  job_id uuid NOT NULL REFERENCES bulk_revocations ON DELETE CASCADE,
  certificate_id uuid NOT NULL,
  serial_number bytea NOT NULL,
  -- Why it was not revoked; null for one that was, or whose turn has not come: the job's after_id says which.
  outcome text,
  PRIMARY KEY (job_id, certificate_id)
) WITH (fillfactor = 80);
