-- Rate limits, quotas, settings that are changed while the service runs, and nonces shared by instances.

-- Counters of `security.rate_limits.backend: database`: one number for each key (src/domain/rate-limit.ts).
-- Unlogged: a row is written for every counted request, and what a crash of the database loses is that everybody starts
-- again with a full allowance, once.
CREATE UNLOGGED TABLE rate_limits (
  key text COLLATE "C" PRIMARY KEY,
  -- Microseconds since 1970 at which the key will have everything back.
  tat bigint NOT NULL,
  -- Of the statement that wrote the row last: its limit, and how many of the requests it counted together passed.
  step bigint NOT NULL,
  tolerance bigint NOT NULL,
  granted integer NOT NULL,
  -- The hour of `tat`. Removal finds its rows by it; and it stays the same through most updates, so that these need not
  -- touch the index.
  tat_hour integer NOT NULL GENERATED ALWAYS AS (tat / 3600000000) STORED
) WITH (fillfactor = 70);

CREATE INDEX rate_limits_tat_hour ON rate_limits (tat_hour);

-- How many requests pass at `now`, as `fitting` in src/domain/rate-limit.ts computes it.
CREATE FUNCTION rate_limit_fitting(tat bigint, step bigint, tolerance bigint, now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN tat - now > tolerance THEN 0 ELSE (tolerance - greatest(tat - now, 0)) / step + 1 END
$$;

-- Orders and certificates of an account on a day (UTC), while `quotas.enabled`.
CREATE TABLE account_usage (
  day date NOT NULL,
  account_id uuid NOT NULL,
  orders integer NOT NULL DEFAULT 0,
  certificates integer NOT NULL DEFAULT 0,
  -- Of the statement that wrote the row last: how many of those it counted together were within the quota.
  granted integer NOT NULL,
  PRIMARY KEY (day, account_id)
) WITH (fillfactor = 70);

CREATE TABLE server_settings (
  key text PRIMARY KEY,
  value jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);

-- Keys that seal the nonces of `nonce.store: database`. An epoch's redemptions are in nonce_redemptions_<id mod 4>.
CREATE TABLE nonce_epochs (
  id bigint PRIMARY KEY,
  key bytea NOT NULL,
  -- Base of the times in its nonces.
  made_at timestamptz NOT NULL DEFAULT now(),
  -- Nobody issues under it before; by then every instance has read it.
  active_from timestamptz NOT NULL
);

-- Tells the threads that issue nonces apart.
CREATE SEQUENCE nonce_lanes AS integer MINVALUE 0 MAXVALUE 16777215 CYCLE;

-- Used nonces. Four tables in turn, emptied as a whole when the last nonce of their epoch has expired. Unlogged: they are
-- written by every request. After a crash they are empty, and the epoch's own row (issued_tick -1, counter the
-- table's oid) is missing with the others: by that every redemption knows that it could not be proven to be the first.
CREATE UNLOGGED TABLE nonce_redemptions_0 (
  epoch bigint NOT NULL,
  issued_tick bigint NOT NULL,
  counter bigint NOT NULL,
  PRIMARY KEY (epoch, issued_tick, counter)
);
CREATE UNLOGGED TABLE nonce_redemptions_1 (LIKE nonce_redemptions_0 INCLUDING ALL);
CREATE UNLOGGED TABLE nonce_redemptions_2 (LIKE nonce_redemptions_0 INCLUDING ALL);
CREATE UNLOGGED TABLE nonce_redemptions_3 (LIKE nonce_redemptions_0 INCLUDING ALL);
