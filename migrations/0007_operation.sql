-- Operation: instances, settings that change while the service runs, background tasks, nonces and rate limits.

-- Running instances: each holds the advisory lock (712100, its id) on a connection of its own. A dead instance is known
-- at
-- once, without a heartbeat.
CREATE FUNCTION live_instances() RETURNS SETOF integer LANGUAGE sql STABLE AS $$
  SELECT objid::bigint::integer FROM pg_locks
   WHERE locktype = 'advisory' AND classid = 712100 AND objsubid = 2 AND granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

CREATE TABLE server_settings (
  key text PRIMARY KEY,
  value jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);

-- When each background task ran last, and on which instance.
CREATE TABLE background_runs (
  task text PRIMARY KEY,
  instance_id integer NOT NULL, -- The instance's number in the presence lock.
  last_run_at timestamptz NOT NULL,
  next_run_at timestamptz NOT NULL,
  errors bigint NOT NULL DEFAULT 0, -- Failed runs of all instances.
  last_error text,
  failed_at timestamptz
) WITH (fillfactor = 50);

-- How far clean-up has come. Keys are time-ordered, so a walk along a primary key meets rows in the order of their expiry,
-- without an index on it.
CREATE TABLE cleanup_progress (
  task text PRIMARY KEY,
  after_id uuid NOT NULL,
  -- When a walk last came to its end: the pause between two of them holds for all instances and across restarts.
  finished_at timestamptz
);

-- Keys that seal the nonces of `nonce.store: database`. An epoch's redemptions are in nonce_redemptions_<id mod 4>.
CREATE TABLE nonce_epochs (
  id bigint PRIMARY KEY,
  key bytea NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(), -- Base of the times in its nonces.
  active_from timestamptz NOT NULL -- No instance issues under it before; by then every instance has read it.
);

-- Tells the threads that issue nonces apart.
CREATE SEQUENCE nonce_lanes AS integer MINVALUE 0 MAXVALUE 16777215 CYCLE;

-- Used nonces. Four tables in turn, emptied as a whole when the last nonce of their epoch has expired.
-- Unlogged, because every request writes to them. A crash empties them, and with them the epoch's own row (issued_tick
-- -1,
-- counter the table's oid). Without that row a redemption cannot be proven to be the first.
CREATE UNLOGGED TABLE nonce_redemptions_0 (
  epoch bigint NOT NULL,
  issued_tick bigint NOT NULL,
  counter bigint NOT NULL,
  PRIMARY KEY (epoch, issued_tick, counter)
);
CREATE UNLOGGED TABLE nonce_redemptions_1 (LIKE nonce_redemptions_0 INCLUDING ALL);
CREATE UNLOGGED TABLE nonce_redemptions_2 (LIKE nonce_redemptions_0 INCLUDING ALL);
CREATE UNLOGGED TABLE nonce_redemptions_3 (LIKE nonce_redemptions_0 INCLUDING ALL);

-- Used nonces, while nonce.audit_consumed is set.
CREATE TABLE nonce_audit (
  nonce text NOT NULL,
  consumed_at timestamptz NOT NULL
);
-- Rows come in the order of their time and leave by it.
CREATE INDEX nonce_audit_age ON nonce_audit USING brin (consumed_at) WITH (autosummarize = on);

-- Counters of `security.rate_limits.backend: database`: one number for each key (src/domain/rate-limit.ts). Unlogged: each
-- counted request writes a row, and after a crash of the database every key starts again with a full allowance, once.
CREATE UNLOGGED TABLE rate_limits (
  key text COLLATE "C" PRIMARY KEY,
  tat bigint NOT NULL, -- Microseconds since 1970 at which the key will have everything back.
  -- The limit of the statement that wrote the row last, and how many of the requests it counted together passed.
  step bigint NOT NULL,
  tolerance bigint NOT NULL,
  granted integer NOT NULL,
  -- The hour of `tat`, by which removal finds its rows. Most updates leave it alone, and with it the index.
  tat_hour integer NOT NULL GENERATED ALWAYS AS (tat / 3600000000) STORED
) WITH (fillfactor = 70);
CREATE INDEX rate_limits_tat_hour ON rate_limits (tat_hour);

-- How many requests pass at `now`, as `fitting` in src/domain/rate-limit.ts computes it.
CREATE FUNCTION rate_limit_fitting(tat bigint, step bigint, tolerance bigint, now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN tat - now > tolerance THEN 0 ELSE (tolerance - greatest(tat - now, 0)) / step + 1 END
$$;
