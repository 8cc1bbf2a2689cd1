-- When accounts were last seen, and with which client.
-- going back: an older release neither writes nor shows it.

CREATE TABLE account_activity (
  account_id uuid PRIMARY KEY REFERENCES accounts ON DELETE CASCADE,
  user_agent text CHECK (length(user_agent) <= 200), -- Null: the client named none.
  last_seen_at timestamptz NOT NULL -- To the hour: written at most once an hour.
);
