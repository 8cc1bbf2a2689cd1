-- Why a bulk revocation does not get on. Relied on from release 0.2; the release before leaves the column alone.

-- Of the last attempt, which is repeated; null as soon as one succeeds.
ALTER TABLE bulk_revocations ADD COLUMN obstacle text;
