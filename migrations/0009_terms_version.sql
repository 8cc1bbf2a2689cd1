-- Which terms of service an account has agreed to. Relied on from release 0.2; the release before leaves the column alone.

-- `tos.version` at the time of the agreement; null: the account agreed to none, or before there were versions.
ALTER TABLE accounts ADD COLUMN terms_version text;
