-- Failed logins of strangers, counted by the minute: only some of each minute have audit entries of their own.
CREATE TABLE admin_failed_logins (
  -- Its beginning.
  minute timestamptz PRIMARY KEY,
  failures integer NOT NULL
);
