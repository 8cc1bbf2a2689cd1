-- Former keys of accounts. Relied on from release 0.2; the release before leaves the column alone.

-- Thumbprints, oldest first. A hashed account URI (draft-ietf-acme-dns-persist-02 §4.2) counts under every key that the
-- account has had. Keys replaced before this migration are not known.
ALTER TABLE accounts ADD COLUMN former_thumbprints text[] NOT NULL DEFAULT '{}';
