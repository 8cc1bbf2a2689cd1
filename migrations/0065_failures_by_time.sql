-- Failures of all accounts, the newest first. Relied on from release 0.2; the release before does not read them so.

CREATE INDEX account_failures_time ON account_failures (occurred_at, event_id);
