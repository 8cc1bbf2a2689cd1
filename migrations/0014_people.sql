-- Who is who: names and tags of accounts and credentials, the tags a registrar looks after, how a session was begun.
-- going back: an older release shows no names and no tags, and knows no registrar's tags.

-- An administrator's name for the account, before its contact and its kid; tags say whose it is.
ALTER TABLE accounts ADD COLUMN label text, ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
-- Accounts that register with the credential get its tags.
ALTER TABLE eab_credentials ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
-- Tags of accounts and credentials that a registrar sees and changes; empty for other roles.
ALTER TABLE admin_users ADD COLUMN scope text[] NOT NULL DEFAULT '{}';
-- How its user was recognized ('password', 'passkey', 'oidc'), when last, and by which browser.
ALTER TABLE admin_sessions
  ADD COLUMN methods text[] NOT NULL DEFAULT '{password}',
  ADD COLUMN authenticated_at timestamptz,
  ADD COLUMN user_agent text;
