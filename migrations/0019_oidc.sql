-- Users who sign in by OpenID Connect (docs/decisions/sign-in.md).
-- going back: an older release lets nobody sign in by OpenID Connect, and such users have no password there either.

-- Whom a provider means by its subject: the only pair that never changes and is never given again (OpenID Connect Core §5.7).
CREATE TABLE admin_user_identities (
  issuer text NOT NULL CHECK (length(issuer) <= 2048),
  subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
  user_id uuid NOT NULL REFERENCES admin_users ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX admin_user_identities_user ON admin_user_identities (user_id);
