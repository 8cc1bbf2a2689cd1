-- Two more roles: operators, and registrars who look after accounts and credentials with their tags.
-- going back: an older release cannot list users or API tokens while one has a new role; give it another one, or revoke it, before.

ALTER TABLE admin_users DROP CONSTRAINT admin_users_role_check;
ALTER TABLE admin_users
  ADD CONSTRAINT admin_users_role CHECK (role IN ('admin', 'operator', 'registrar', 'auditor')) NOT VALID;
ALTER TABLE admin_api_tokens DROP CONSTRAINT admin_api_tokens_role_check;
ALTER TABLE admin_api_tokens
  ADD CONSTRAINT admin_api_tokens_role CHECK (role IN ('admin', 'operator', 'registrar', 'auditor')) NOT VALID;
-- As admin_users.scope, for a token with the role registrar.
ALTER TABLE admin_api_tokens ADD COLUMN scope text[] NOT NULL DEFAULT '{}';
