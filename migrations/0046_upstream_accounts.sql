-- Accounts of this service at upstream ACME services (backend acme_proxy). Relied on from release 0.2.

CREATE TABLE upstream_accounts (
  id uuid PRIMARY KEY,
  directory_url text NOT NULL,
  email text NOT NULL,
  -- PKCS #8, sealed like the keys of binding credentials; it opens under the row's id alone.
  sealed_key bytea NOT NULL,
  -- Unknown until the upstream has registered the key.
  url text,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT upstream_accounts_name UNIQUE (directory_url, email)
);
