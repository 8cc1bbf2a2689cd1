-- Other CAs: issuance from a CSR, revocation and renewal advice there, and accounts at upstream ACME services.

-- A request to a backend, from before the first step until certificate or failure are recorded.
CREATE TABLE csr_issuances (
  certificate_id uuid PRIMARY KEY,
  order_id uuid NOT NULL UNIQUE,
  account_id uuid NOT NULL,
  csr bytea NOT NULL,
  spki_sha256 bytea NOT NULL,
  not_before timestamptz NOT NULL,
  not_after timestamptz NOT NULL,
  backend text NOT NULL, -- The backend that has begun it.
  state jsonb, -- What the last step has answered.
  may_have_issued boolean NOT NULL DEFAULT false, -- Whether a certificate may exist at the backend.
  is_running boolean NOT NULL DEFAULT false, -- A step has begun whose answer is not recorded.
  was_interrupted boolean NOT NULL DEFAULT false, -- A step has ended without its answer, as after a crash.
  failures integer NOT NULL DEFAULT 0, -- Steps in a row that have failed.
  instance_id integer NOT NULL, -- The instance that works on it, until due_at; then any may.
  due_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  abandoned_at timestamptz -- Since then the order has failed, and only what was issued too late is waited for.
) WITH (fillfactor = 70);
CREATE INDEX csr_issuances_due ON csr_issuances (due_at);

-- Certificates that a backend has yet to revoke; a confirmed one leaves.
CREATE TABLE backend_revocations (
  certificate_id uuid PRIMARY KEY,
  backend text NOT NULL,
  der bytea NOT NULL,
  reason smallint NOT NULL,
  failures integer NOT NULL DEFAULT 0,
  error text, -- The last attempt's.
  due_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);

CREATE FUNCTION revoke_at_backend() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO backend_revocations (certificate_id, backend, der, reason)
  VALUES (NEW.id, NEW.backend, NEW.der, coalesce(NEW.revocation_reason, 0)) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
-- In the transaction of every revocation.
CREATE TRIGGER certificates_revoke_at_backend AFTER UPDATE OF revoked_at ON certificates
  FOR EACH ROW WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL AND NEW.backend IS NOT NULL)
  EXECUTE FUNCTION revoke_at_backend();

-- Accounts of this service at upstream ACME services (backend acme_proxy).
CREATE TABLE upstream_accounts (
  id uuid PRIMARY KEY,
  directory_url text NOT NULL,
  email text NOT NULL,
  sealed_key bytea NOT NULL, -- PKCS #8, sealed like the keys of binding credentials; it opens under the row's id alone.
  url text, -- Unknown until the upstream has registered the key.
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT upstream_accounts_name UNIQUE (directory_url, email)
);

-- When the CA behind this service would renew a certificate (RFC 9773), and when it is asked next. One row for each
-- certificate of such a CA until it is revoked or has expired.
CREATE TABLE upstream_renewals (
  certificate_id uuid PRIMARY KEY,
  backend text NOT NULL,
  window_start timestamptz, -- Absent before the first answer.
  window_end timestamptz,
  explanation_url text,
  due_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
-- Each backend is asked in rounds of its own.
CREATE INDEX upstream_renewals_backend_due ON upstream_renewals (backend, due_at);
