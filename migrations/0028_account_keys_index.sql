-- concurrently
-- going back: nothing is missed.
CREATE INDEX CONCURRENTLY accounts_spki ON accounts (account_spki_sha256(jwk));
-- No plan needs statistics of the expression, which would compute it again for each sampled account.
ALTER INDEX accounts_spki ALTER COLUMN 1 SET STATISTICS 0;
-- Keys whose other certificates are still to be revoked.
CREATE INDEX CONCURRENTLY blocked_keys_to_spread ON blocked_keys (proved_at) WHERE proved_at IS NOT NULL AND spread_at IS NULL;
