-- Passkeys of administrators (docs/decisions/passkeys.md).
-- going back: an older release asks for passwords alone, also where a passkey was needed.

CREATE TABLE admin_passkeys (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES admin_users ON DELETE CASCADE,
  credential_id text NOT NULL UNIQUE CHECK (length(credential_id) <= 1364), -- In base64url; at most 1023 bytes (WebAuthn §4).
  public_key bytea NOT NULL, -- COSE key (RFC 9052).
  counter bigint NOT NULL, -- Signature counter; many passkeys always say 0.
  transports text[] NOT NULL DEFAULT '{}',
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz
);
CREATE INDEX admin_passkeys_user ON admin_passkeys (user_id);

-- Challenges that were answered, by SHA-256, until they would have expired: none is answered twice, on any instance.
CREATE TABLE admin_answered_challenges (
  challenge bytea PRIMARY KEY,
  expires_at timestamptz NOT NULL
);
