-- Administrators: users, sessions, API tokens, login limits, and the audit log. Relied on from release 0.2.
-- Every change adds; the previous release knows none of these tables.

CREATE TABLE admin_users (
  id uuid PRIMARY KEY,
  username text NOT NULL CHECK (length(username) BETWEEN 1 AND 128),
  email text NOT NULL CHECK (length(email) BETWEEN 1 AND 512),
  role text NOT NULL CHECK (role IN ('admin', 'auditor')),
  enabled boolean NOT NULL DEFAULT true,
  -- Argon2id in PHC format, or werkzeug's scrypt of an imported user until the next login.
  password_hash text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  last_login_at timestamptz
);
-- Two users whose names differ in case alone would be mistaken for one another.
CREATE UNIQUE INDEX admin_users_username ON admin_users (lower(username));

-- A token is good while its row is here. Logout, reset-password and deletion of the user remove rows.
CREATE TABLE admin_sessions (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES admin_users ON DELETE CASCADE,
  ip_address text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX admin_sessions_user ON admin_sessions (user_id);
CREATE INDEX admin_sessions_expiry ON admin_sessions (expires_at);

CREATE TABLE admin_api_tokens (
  id uuid PRIMARY KEY,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  role text NOT NULL CHECK (role IN ('admin', 'auditor')),
  -- SHA-256; the token has 256 random bits.
  token_hash bytea NOT NULL UNIQUE,
  created_by uuid NOT NULL REFERENCES admin_users ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
CREATE INDEX admin_api_tokens_maker ON admin_api_tokens (created_by);

-- Failed logins of one address or username (src/domain/login-limit.ts).
CREATE TABLE admin_login_limits (
  subject text PRIMARY KEY,
  failures integer NOT NULL,
  window_began_at timestamptz NOT NULL,
  locked_until timestamptz
);

-- Addresses from which a user has signed in lately; a locked username does not lock them.
CREATE TABLE admin_login_addresses (
  user_id uuid NOT NULL REFERENCES admin_users ON DELETE CASCADE,
  ip_address text NOT NULL,
  last_login_at timestamptz NOT NULL,
  PRIMARY KEY (user_id, ip_address)
);

-- What administrators did. Each row's MAC covers the row and the MAC before it (src/domain/audit-chain.ts).
CREATE TABLE admin_audit_log (
  sequence bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  -- No foreign keys: entries outlive their users.
  user_id uuid,
  action text NOT NULL,
  target_user_id uuid,
  details jsonb NOT NULL,
  ip_address text,
  created_at timestamptz NOT NULL,
  mac bytea NOT NULL
);
CREATE INDEX admin_audit_log_action ON admin_audit_log (action, sequence);
CREATE INDEX admin_audit_log_user ON admin_audit_log (user_id, sequence);
CREATE INDEX admin_audit_log_time ON admin_audit_log (created_at);

-- The last entry, and the first that retention has left. One row, the lock of the chain.
CREATE TABLE admin_audit_head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  sequence bigint NOT NULL,
  mac bytea NOT NULL,
  -- Everything up to here was deleted by retention; the MAC under which the chain goes on.
  cut_sequence bigint NOT NULL DEFAULT 0,
  cut_mac bytea NOT NULL,
  cut_at timestamptz,
  -- Under the same key: a cut that retention did not make does not verify.
  cut_seal bytea
);
INSERT INTO admin_audit_head (sequence, mac, cut_mac) VALUES (0, '', '');

CREATE FUNCTION admin_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Retention says so, in its transaction alone.
  IF TG_OP = 'DELETE' AND current_setting('chancery.audit_retention', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER admin_audit_append_only BEFORE UPDATE OR DELETE ON admin_audit_log
  FOR EACH ROW EXECUTE FUNCTION admin_audit_append_only();
CREATE TRIGGER admin_audit_no_truncate BEFORE TRUNCATE ON admin_audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION admin_audit_append_only();
