-- A clock that no jump moves (docs/decisions/clocks.md).
-- going back: an older release deletes by the clock of its host and of the database alone.

-- One row, from the first tick of a service on. `at` goes towards now() by at most twice the time that has passed in it.
CREATE TABLE slow_clock (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  at timestamptz NOT NULL
);

-- What is deleted for good by its age is compared with this. The hour is more than passes between two ticks.
CREATE FUNCTION slow_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT least(now(), (SELECT at FROM slow_clock) + interval '1 hour')
$$;
