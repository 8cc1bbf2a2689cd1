-- Notifications: mails to account holders and administrators, and what warnings of expiry have been given. Relied on from release 0.2.
-- Every change adds; the previous release knows none of these tables.

CREATE TABLE notifications (
  -- Version 7: the newest have the highest.
  id uuid PRIMARY KEY,
  notification_type text NOT NULL,
  recipient text NOT NULL,
  subject text NOT NULL,
  body_text text NOT NULL,
  body_html text NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sent', 'failed')),
  -- Absent for administrators.
  account_id uuid,
  error_detail text,
  retry_count integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  sent_at timestamptz,
  -- Of the next attempt; absent when there will be none.
  due_at timestamptz,
  -- The instance that is sending it.
  claimed_by integer,
  -- Of every attempt, so that a mail server or a reader knows a repeated one.
  message_id text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX notifications_due ON notifications (status, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX notifications_status ON notifications (status, id);
-- What clients may cause only so often.
CREATE INDEX notifications_limited ON notifications (account_id, notification_type, id)
  WHERE notification_type IN ('order_quota_exceeded', 'order_rejected', 'csr_validation_failed', 'challenge_failed',
                             'registration_failed');

-- One warning for each certificate and threshold.
CREATE TABLE expiration_notices (
  certificate_id uuid NOT NULL,
  warning_days integer NOT NULL,
  noticed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (certificate_id, warning_days)
);
CREATE INDEX expiration_notices_age ON expiration_notices (noticed_at);

-- How far along certificates_not_after the warnings of a threshold have come.
CREATE TABLE expiration_progress (
  warning_days integer PRIMARY KEY,
  not_after timestamptz NOT NULL,
  certificate_id uuid NOT NULL
);
