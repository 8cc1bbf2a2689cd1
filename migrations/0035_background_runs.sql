-- When each background task ran last, and on which instance. Relied on from release 0.2.

CREATE TABLE background_runs (
  task text PRIMARY KEY,
  -- Of the presence lock.
  instance_id integer NOT NULL,
  last_run_at timestamptz NOT NULL,
  next_run_at timestamptz NOT NULL,
  -- Failed runs of all instances.
  errors bigint NOT NULL DEFAULT 0,
  last_error text,
  failed_at timestamptz
) WITH (fillfactor = 50);
