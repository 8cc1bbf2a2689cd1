-- Each backend is asked for its renewals in rounds of its own. Relied on from release 0.2; the release before reads the whole
-- table in a round.

CREATE INDEX upstream_renewals_backend_due ON upstream_renewals (backend, due_at);
DROP INDEX upstream_renewals_due;
