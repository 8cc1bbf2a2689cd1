-- What an operator ties to accounts: external account bindings, allowed identifiers, CSR profiles. Relied on from
-- release 0.1. Every change adds; a release that knows only 0001 goes on working.
--
-- `created_by` and `assigned_by` name an administrator; null is the command line.

-- Credentials of external account binding (RFC 8555 §7.3.4).
CREATE TABLE eab_credentials (
  id uuid PRIMARY KEY,
  kid text NOT NULL UNIQUE CHECK (length(kid) BETWEEN 1 AND 255),
  label text CHECK (length(label) <= 255),
  -- Sealed (src/shared/lib/secret-box.ts), for this credential's id alone.
  hmac_key bytea NOT NULL,
  created_by uuid,
  -- The account registered last; which accounts were ever registered is in accounts.eab_credential_id.
  account_id uuid,
  used boolean NOT NULL DEFAULT false,
  used_at timestamptz,
  revoked boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- The credential an account was registered with, for good, and the JWS that proved it, as the account object shows it.
ALTER TABLE accounts
  ADD COLUMN eab_credential_id uuid REFERENCES eab_credentials,
  ADD COLUMN external_account_binding jsonb;
CREATE INDEX accounts_eab_credential ON accounts (eab_credential_id) WHERE eab_credential_id IS NOT NULL;

-- Identifiers that may be allowed to accounts: a name, `*.x` for x and everything below it, an address, a network.
CREATE TABLE allowed_identifiers (
  id uuid PRIMARY KEY,
  identifier_type text NOT NULL CHECK (identifier_type IN ('dns', 'ip')),
  identifier_value text NOT NULL CHECK (length(identifier_value) <= 255),
  created_by uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (identifier_type, identifier_value)
);

CREATE TABLE eab_allowed_identifiers (
  eab_credential_id uuid NOT NULL REFERENCES eab_credentials ON DELETE CASCADE,
  identifier_id uuid NOT NULL REFERENCES allowed_identifiers ON DELETE CASCADE,
  PRIMARY KEY (eab_credential_id, identifier_id)
);

CREATE TABLE account_allowed_identifiers (
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  identifier_id uuid NOT NULL REFERENCES allowed_identifiers ON DELETE CASCADE,
  -- The credential it was copied from; null where an operator allowed it to the account itself. What is taken from a
  -- credential is taken only where it came from that credential.
  eab_credential_id uuid,
  PRIMARY KEY (account_id, identifier_id)
);

CREATE TABLE csr_profiles (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 255),
  description text,
  profile_data jsonb NOT NULL CHECK (jsonb_typeof(profile_data) = 'object'),
  created_by uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE eab_csr_profiles (
  eab_credential_id uuid PRIMARY KEY REFERENCES eab_credentials ON DELETE CASCADE,
  csr_profile_id uuid NOT NULL REFERENCES csr_profiles ON DELETE CASCADE,
  assigned_by uuid
);

CREATE TABLE account_csr_profiles (
  account_id uuid PRIMARY KEY REFERENCES accounts ON DELETE CASCADE,
  csr_profile_id uuid NOT NULL REFERENCES csr_profiles ON DELETE CASCADE,
  -- As in account_allowed_identifiers.
  eab_credential_id uuid,
  assigned_by uuid
);

-- SHA-256 of the certified SubjectPublicKeyInfo, for `reuse_key: false`. Without an index: certificates_spki is made
-- when the first profile asks (src/store/csr-profile-store.ts), so that an installation without such profiles does not
-- pay for it with each certificate.
ALTER TABLE issuance_intents ADD COLUMN spki_sha256 bytea;
ALTER TABLE certificates ADD COLUMN spki_sha256 bytea;
