-- Administrators: users, sessions, API tokens, login limits, and the audit log.

CREATE TABLE admin_users (
  id uuid PRIMARY KEY,
  username text NOT NULL CHECK (length(username) BETWEEN 1 AND 128),
  email text NOT NULL CHECK (length(email) BETWEEN 1 AND 512),
  role text NOT NULL CHECK (role IN ('admin', 'auditor')),
  enabled boolean NOT NULL DEFAULT true,
  password_hash text NOT NULL, -- Argon2id in PHC format, or werkzeug's scrypt of an imported user until the next login.
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
  token_hash bytea NOT NULL UNIQUE, -- SHA-256; the token has 256 random bits.
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

-- Failed logins of strangers, counted by the minute: only some of each minute have audit entries of their own.
CREATE TABLE admin_failed_logins (
  minute timestamptz PRIMARY KEY, -- Its beginning.
  failures integer NOT NULL
);

-- Actions of administrators. Each row's MAC covers the row and the MAC before it (src/domain/audit-chain.ts).
CREATE TABLE admin_audit_log (
  sequence bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  user_id uuid, -- No foreign keys: entries outlive their users.
  action text NOT NULL,
  target_user_id uuid,
  details jsonb NOT NULL,
  ip_address text,
  created_at timestamptz NOT NULL,
  mac bytea NOT NULL
);
CREATE INDEX admin_audit_log_action ON admin_audit_log (action, sequence);
CREATE INDEX admin_audit_log_user ON admin_audit_log (user_id, sequence);
CREATE INDEX admin_audit_log_address ON admin_audit_log (ip_address, sequence);
CREATE INDEX admin_audit_log_time ON admin_audit_log (created_at);

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

-- The last entry, and the first that retention has left. One row, the lock of the chain.
CREATE TABLE admin_audit_head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  sequence bigint NOT NULL,
  mac bytea NOT NULL,
  cut_sequence bigint NOT NULL DEFAULT 0, -- Retention has deleted everything up to here; the chain continues from this MAC.
  cut_mac bytea NOT NULL,
  cut_at timestamptz,
  cut_seal bytea -- Under the same key: a cut that retention did not make does not verify.
);
INSERT INTO admin_audit_head (sequence, mac, cut_mac) VALUES (0, '', '');

-- Checks of the audit log's chain are jobs: a long log needs no long request.
CREATE TABLE audit_verifications (
  id uuid PRIMARY KEY,
  status text NOT NULL DEFAULT 'running', -- 'running'; 'done' with a verdict; 'failed' with a reason.
  checked bigint NOT NULL DEFAULT 0, -- Entries.
  total bigint NOT NULL DEFAULT 0,
  verdict jsonb,
  seal bytea, -- Covers the verdict and its time, under the key of the audit log: the owner of the database cannot make one.
  failure text,
  created_at timestamptz NOT NULL DEFAULT now(),
  progressed_at timestamptz NOT NULL DEFAULT now(), -- Does not move when the instance that checks has ended.
  finished_at timestamptz
);
-- One at a time: each reads the whole log.
CREATE UNIQUE INDEX audit_verifications_running ON audit_verifications ((true)) WHERE status = 'running';
