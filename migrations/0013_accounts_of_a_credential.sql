-- The accounts of a credential, newest first. Without the order in the index, a list for one of few credentials (`acme.eab_reusable`)
-- read all accounts by id. Relied on by nothing; the release before goes along the new index as it went along the old one.

-- Dropped first, which takes the exclusive lock at once: asked for behind CREATE INDEX it could end in a deadlock.
DROP INDEX accounts_eab_credential;
CREATE INDEX accounts_eab_credential ON accounts (eab_credential_id, id) WHERE eab_credential_id IS NOT NULL;
