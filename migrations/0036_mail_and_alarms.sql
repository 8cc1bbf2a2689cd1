-- What the mail server said last, and the texts of alarms (src/store/notification-store.ts, src/store/event-statistics-store.ts).
-- going back: the overview dates a failed mail by the time it was made, and has of alarms only how many there were.

-- One row, from the first attempt on.
CREATE TABLE mail_attempts (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  sent_at timestamptz,
  failed_at timestamptz,
  failing_since timestamptz, -- The first failure after the last success.
  error text
);

CREATE TABLE raised_alarms (
  event_id uuid PRIMARY KEY,
  raised_at timestamptz NOT NULL,
  message text NOT NULL,
  reason text
);
CREATE INDEX raised_alarms_time ON raised_alarms (raised_at);
