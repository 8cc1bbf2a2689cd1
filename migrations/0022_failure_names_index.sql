-- concurrently
-- Failures are found by their names. The thread of events writes it, no request does.
-- going back: nothing is missed.
CREATE INDEX CONCURRENTLY account_failures_names ON account_failures USING gin (failure_names(data));
