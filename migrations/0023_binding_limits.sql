-- Limits of binding credentials, and indexes for administrators who look from an identifier or profile to its accounts. Relied on
-- from release 0.2. Every change adds; the previous release ignores the limits, so make such credentials when every instance
-- runs this release.

ALTER TABLE eab_credentials
  ADD COLUMN expires_at timestamptz,
  -- Accounts that may register with it; null leaves it to `acme.eab_reusable`.
  ADD COLUMN max_uses integer CHECK (max_uses > 0),
  -- Accounts that have registered with it since this release.
  ADD COLUMN uses integer NOT NULL DEFAULT 0,
  -- Networks from which accounts may register with it; null for all.
  ADD COLUMN allowed_networks cidr[] CHECK (cardinality(allowed_networks) > 0);

CREATE INDEX account_allowed_identifiers_identifier ON account_allowed_identifiers (identifier_id);
CREATE INDEX eab_allowed_identifiers_identifier ON eab_allowed_identifiers (identifier_id);
CREATE INDEX account_csr_profiles_profile ON account_csr_profiles (csr_profile_id);
CREATE INDEX eab_csr_profiles_profile ON eab_csr_profiles (csr_profile_id);
