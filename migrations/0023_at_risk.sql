-- Certificates at risk that an administrator has muted.
-- going back: an older release does not know them; they are muted again with this one.

CREATE TABLE renewal_mutes (
  certificate_id uuid PRIMARY KEY,
  reason text NOT NULL,
  muted_by text NOT NULL, -- The name of the user, as the audit log has it.
  muted_at timestamptz NOT NULL DEFAULT now(),
  muted_until timestamptz -- Null: as long as the certificate is at risk.
);
