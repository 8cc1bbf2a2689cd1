-- Accounts, and what an operator ties to them: external account bindings, allowed identifiers, CSR profiles.
--
-- Keys are UUIDs of version 7 that the application makes, here and in all other files.
-- `created_by` and `assigned_by` name an administrator; null is the command line.

-- Credentials of external account binding (RFC 8555 §7.3.4).
CREATE TABLE eab_credentials (
  id uuid PRIMARY KEY,
  kid text NOT NULL UNIQUE CHECK (length(kid) BETWEEN 1 AND 255),
  label text CHECK (length(label) <= 255),
  hmac_key bytea NOT NULL, -- Sealed (src/shared/lib/secret-box.ts), for this credential's id alone.
  created_by uuid,
  account_id uuid, -- The account registered last. All accounts of a credential are found by accounts.eab_credential_id.
  used boolean NOT NULL DEFAULT false,
  used_at timestamptz,
  revoked boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  uses integer NOT NULL DEFAULT 0, -- Accounts that have registered with it.
  max_uses integer CHECK (max_uses > 0), -- Accounts that may register with it; null leaves it to `acme.eab_reusable`.
  -- Networks from which accounts may register with it; null for all.
  allowed_networks cidr[] CHECK (cardinality(allowed_networks) > 0),
  -- CA profiles its accounts may order, the one for orders without a choice first; null for all.
  profiles text[] CHECK (cardinality(profiles) > 0),
  -- Identifiers of its allowlist that are ordered from here need no challenge; null for none.
  preapproved_networks cidr[] CHECK (cardinality(preapproved_networks) > 0)
);

CREATE TABLE accounts (
  id uuid PRIMARY KEY,
  thumbprint text NOT NULL UNIQUE, -- RFC 7638 thumbprint of the canonical JWK: one account for one key.
  jwk text NOT NULL,
  -- Rises with every key change, so that a statement prepared under the old key finds no account.
  key_version integer NOT NULL DEFAULT 1,
  -- The ten newest, oldest first. A hashed account URI (draft-ietf-acme-dns-persist-02 §4.2) counts under each of them.
  former_thumbprints text[] NOT NULL DEFAULT '{}',
  status text NOT NULL DEFAULT 'valid', -- A CHECK would cost each write a tenth (docs/decisions/no-status-checks.md).
  contacts text[] NOT NULL DEFAULT '{}',
  terms_agreed boolean NOT NULL DEFAULT false,
  -- `tos.version` at the time of the agreement; null: the account agreed to none, or before there were versions.
  terms_version text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz, -- Null until the first change.
  -- The credential it was registered with, for good, and the JWS that proved it, as the account object shows it.
  eab_credential_id uuid REFERENCES eab_credentials,
  external_account_binding jsonb,
  allowed_profiles text[], -- Copied from the credential at registration.
  preapproved_networks cidr[]
);
-- The accounts of a credential, newest first.
CREATE INDEX accounts_eab_credential ON accounts (eab_credential_id, id) WHERE eab_credential_id IS NOT NULL;
-- No registration writes to it.
CREATE INDEX accounts_not_valid ON accounts (id) WHERE status <> 'valid';

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
CREATE INDEX eab_allowed_identifiers_identifier ON eab_allowed_identifiers (identifier_id);

CREATE TABLE account_allowed_identifiers (
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  identifier_id uuid NOT NULL REFERENCES allowed_identifiers ON DELETE CASCADE,
  -- The credential it was copied from; null where an operator allowed it to the account itself. Taking it from a
  -- credential
  -- removes only rows that came from that credential.
  eab_credential_id uuid,
  PRIMARY KEY (account_id, identifier_id)
);
CREATE INDEX account_allowed_identifiers_identifier ON account_allowed_identifiers (identifier_id);

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
CREATE INDEX eab_csr_profiles_profile ON eab_csr_profiles (csr_profile_id);

CREATE TABLE account_csr_profiles (
  account_id uuid PRIMARY KEY REFERENCES accounts ON DELETE CASCADE,
  csr_profile_id uuid NOT NULL REFERENCES csr_profiles ON DELETE CASCADE,
  eab_credential_id uuid, -- As in account_allowed_identifiers.
  assigned_by uuid
);
CREATE INDEX account_csr_profiles_profile ON account_csr_profiles (csr_profile_id);

-- Whether a credential's allowlist names an identifier, as isAllowed in src/domain/allowlist.ts says it. The value is that
-- of an authorization: a wildcard comes without its `*.`, and is allowed by entries that begin with it alone.
CREATE FUNCTION credential_allows(credential uuid, type text, value text, wildcard boolean) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM eab_allowed_identifiers e JOIN allowed_identifiers n ON n.id = e.identifier_id
     WHERE e.eab_credential_id = credential
       AND CASE
             WHEN n.identifier_type <> type THEN false
             WHEN type = 'ip' THEN value::inet <<= n.identifier_value::inet
             WHEN starts_with(n.identifier_value, '*.')
               THEN value = substr(n.identifier_value, 3) OR right(value, length(n.identifier_value) - 1) = substr(n.identifier_value, 2)
             ELSE NOT wildcard AND value = n.identifier_value
           END)
$$;
