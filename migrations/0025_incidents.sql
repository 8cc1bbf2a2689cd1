-- Incidents: what was reported, what was done about it, and by whom.
-- going back: an older release shows no incidents; their bulk revocations, blocked keys and notifications stay.

CREATE TABLE incidents (
  id uuid PRIMARY KEY, -- Version 7: the newest have the highest.
  filter jsonb NOT NULL, -- Of the certificates, as in the request.
  actions jsonb NOT NULL, -- What was chosen, as in the request.
  certificates integer NOT NULL, -- Unrevoked ones that were confirmed.
  issuers text[] NOT NULL, -- SHA-256 of the certificates of their issuers.
  job_id uuid REFERENCES bulk_revocations ON DELETE SET NULL,
  advised integer, -- Certificates whose clients were advised to renew; null when that was not chosen.
  notifications uuid[] NOT NULL DEFAULT '{}', -- Mails to the owners.
  without_contact integer NOT NULL DEFAULT 0, -- Accounts that have no address to write to.
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
