-- Certificates of CAs that issue from a CSR: what is on its way, who issued a certificate, and revocations that such a CA has
-- yet to confirm. Relied on from release 0.2; the release before leaves the tables and columns alone.

-- What a backend is asked for, from before the first step until certificate or failure are recorded.
CREATE TABLE csr_issuances (
  certificate_id uuid PRIMARY KEY,
  order_id uuid NOT NULL UNIQUE,
  account_id uuid NOT NULL,
  csr bytea NOT NULL,
  spki_sha256 bytea NOT NULL,
  not_before timestamptz NOT NULL,
  not_after timestamptz NOT NULL,
  -- Who has begun it.
  backend text NOT NULL,
  -- What the last step has answered.
  state jsonb,
  -- Whether a certificate may exist at the backend.
  may_have_issued boolean NOT NULL DEFAULT false,
  -- A step has begun whose answer is not recorded.
  is_running boolean NOT NULL DEFAULT false,
  -- Steps in a row that have failed.
  failures integer NOT NULL DEFAULT 0,
  -- The instance that works on it, until due_at; then any may.
  instance_id integer NOT NULL,
  due_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Since then the order has failed, and only what was issued too late is waited for.
  abandoned_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX csr_issuances_due ON csr_issuances (due_at);

-- Null for the signer.
ALTER TABLE certificates ADD COLUMN backend text;
-- DER of further chains of the issuer's key, in base64; of issuers that are not the signer's.
ALTER TABLE issuers ADD COLUMN alternate_chains jsonb;

-- Certificates that a backend has yet to revoke; a confirmed one leaves.
CREATE TABLE backend_revocations (
  certificate_id uuid PRIMARY KEY,
  backend text NOT NULL,
  der bytea NOT NULL,
  reason smallint NOT NULL,
  failures integer NOT NULL DEFAULT 0,
  -- Of the last attempt.
  error text,
  due_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);

CREATE FUNCTION revoke_at_backend() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO backend_revocations (certificate_id, backend, der, reason)
  VALUES (NEW.id, NEW.backend, NEW.der, coalesce(NEW.revocation_reason, 0)) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

-- In the transaction of the revocation, whoever makes it.
CREATE TRIGGER certificates_revoke_at_backend AFTER UPDATE OF revoked_at ON certificates
  FOR EACH ROW WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL AND NEW.backend IS NOT NULL)
  EXECUTE FUNCTION revoke_at_backend();
