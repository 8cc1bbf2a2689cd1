-- concurrently
-- The roles of all rows are checked, and a registrar's accounts and credentials are found by their tags.
-- going back: nothing is missed.
ALTER TABLE admin_users VALIDATE CONSTRAINT admin_users_role;
ALTER TABLE admin_api_tokens VALIDATE CONSTRAINT admin_api_tokens_role;
-- Accounts without tags, which are most, cost it nothing.
CREATE INDEX CONCURRENTLY accounts_tags ON accounts USING gin (tags) WHERE tags <> '{}';
