-- When an account last changed. Relied on from release 0.2; the release before leaves the column alone.
-- Null until the first change: an insert writes nothing more, and adding the column rewrites no row.
ALTER TABLE accounts ADD COLUMN updated_at timestamptz;
