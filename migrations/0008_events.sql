-- Events: what happened, one row for each consumer that has yet to take it. Triggers write them in the transaction of the
-- change (docs/decisions/events.md). Then what consumers in the database keep: counts, failures, notifications.

-- Which consumer wants which kinds. An instance that is configured for a consumer keeps its row.
CREATE TABLE event_consumers (
  name text PRIMARY KEY,
  kinds text[] NOT NULL,
  holder_kinds text[] NOT NULL DEFAULT '{}', -- Of `kinds`, those that are wanted only about accounts with a contact.
  seen_at timestamptz NOT NULL DEFAULT now() -- By an instance that delivers to it.
);

-- A row leaves when its consumer has taken the event. No row is read by position, so none is passed over when a lower sequence
-- commits later. A foreign key to the consumer would lock its row with every insert; removeUnseenConsumers() cleans up.
CREATE TABLE event_deliveries (
  consumer text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  event_id uuid NOT NULL, -- The same for all consumers of one event.
  kind text NOT NULL,
  subject text NOT NULL, -- Events of one subject are delivered in their order.
  account_id uuid,
  occurred_at timestamptz NOT NULL,
  -- The payload. Below "row" is the row that has changed; its columns become members when the event is read
  -- (src/domain/stored-event.ts).
  data jsonb NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT now(),
  claimed_by integer, -- The instance that is delivering it.
  error text,
  PRIMARY KEY (consumer, sequence)
  -- A claim stays on its page, and writes to no index; the table is short.
) WITH (fillfactor = 45);
-- Consumers in the database take all subjects at once, and need no order among them.
CREATE INDEX event_deliveries_subject ON event_deliveries (consumer, subject, sequence)
  WHERE consumer NOT IN ('notifications', 'statistics');

-- Deliveries that failed for good, whole, so that they can be sent again.
CREATE TABLE event_dead_letters (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  kind text NOT NULL,
  subject text NOT NULL,
  account_id uuid,
  occurred_at timestamptz NOT NULL,
  data jsonb NOT NULL,
  attempts integer NOT NULL,
  error text NOT NULL,
  failed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX event_dead_letters_age ON event_dead_letters (failed_at);

-- One event that no trigger writes, for each consumer that wants it.
CREATE FUNCTION emit_event(new_kind text, new_subject text, new_account uuid, new_data jsonb) RETURNS void
LANGUAGE sql AS $$
  WITH event AS MATERIALIZED (SELECT gen_random_uuid() AS id)
  INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
  SELECT c.name, event.id, new_kind, new_subject, new_account, clock_timestamp(), new_data
    FROM event_consumers c, event WHERE new_kind = ANY (c.kinds)
$$;

-- Writes the event whose kind is the trigger's argument, for each consumer that wants it. To choose columns here would cost
-- more than to write the row as it is.
CREATE FUNCTION emit_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  new_kind text := TG_ARGV[0];
  about text;
  account uuid;
  consumers text[];
  new_id uuid;
  facts jsonb;
BEGIN
  IF TG_TABLE_NAME IN ('certificates', 'orders', 'authorizations') THEN account := NEW.account_id;
  ELSIF TG_TABLE_NAME = 'accounts' THEN account := NEW.id;
  END IF;
  consumers := ARRAY(
    SELECT c.name FROM event_consumers c
     WHERE new_kind = ANY (c.kinds)
       AND (new_kind <> ALL (c.holder_kinds) OR EXISTS (SELECT FROM accounts h WHERE h.id = account AND h.contacts <> '{}')));
  IF consumers = '{}' THEN RETURN NULL; END IF;
  IF TG_TABLE_NAME = 'crls' THEN about := NEW.issuer_id || ' ' || NEW.shard; ELSE about := NEW.id; END IF;
  -- No event has the certificate itself, and it is the largest column.
  IF TG_TABLE_NAME = 'certificates' THEN NEW.der := ''; END IF;
  facts := jsonb_build_object('row', to_jsonb(NEW));
  -- Facts from other rows and from the former row.
  IF new_kind = 'account.key_change' THEN
    facts := facts || jsonb_build_object('old_thumbprint', OLD.thumbprint);
  ELSIF new_kind IN ('account.deactivation', 'account.revocation') THEN
    facts := facts || jsonb_build_object('deactivated_authorizations', (
      SELECT count(*) FROM authorizations z WHERE z.account_id = NEW.id AND z.status = 'valid' AND z.expires_at > now()));
  ELSIF new_kind = 'authorization.deactivation' THEN
    -- Both ids begin with their time, and no order is older than an authorization that was made for it. The last digits
    -- of the time, about a minute, are left out, for clocks of other instances.
    facts := facts || jsonb_build_object('invalidated_orders', (
      SELECT coalesce(jsonb_agg(o.id ORDER BY o.id), '[]') FROM orders o
       WHERE o.account_id = NEW.account_id AND o.id >= (left(NEW.id::text, 8) || '-0000-0000-0000-000000000000')::uuid
         AND o.status = 'open' AND o.expires_at > now() AND NEW.id = ANY (o.authorization_ids)));
  END IF;
  new_id := gen_random_uuid();
  INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
  SELECT name, new_id, new_kind, about, account, clock_timestamp(), facts FROM unnest(consumers) AS name;
  RETURN NULL;
END $$;

-- For each row: a transition table costs more than the few rows of a group.
CREATE TRIGGER accounts_emit_registered AFTER INSERT ON accounts
  FOR EACH ROW EXECUTE FUNCTION emit_change('account.registration');
CREATE TRIGGER accounts_emit_key_changed AFTER UPDATE ON accounts
  FOR EACH ROW WHEN (NEW.thumbprint <> OLD.thumbprint) EXECUTE FUNCTION emit_change('account.key_change');
CREATE TRIGGER accounts_emit_deactivated AFTER UPDATE ON accounts
  FOR EACH ROW WHEN (NEW.status = 'deactivated' AND OLD.status <> 'deactivated')
  EXECUTE FUNCTION emit_change('account.deactivation');
CREATE TRIGGER accounts_emit_revoked AFTER UPDATE ON accounts
  FOR EACH ROW WHEN (NEW.status = 'revoked' AND OLD.status <> 'revoked') EXECUTE FUNCTION emit_change('account.revocation');
CREATE TRIGGER authorizations_emit_deactivated AFTER UPDATE ON authorizations
  FOR EACH ROW WHEN (NEW.status = 'deactivated' AND OLD.status <> 'deactivated')
  EXECUTE FUNCTION emit_change('authorization.deactivation');
CREATE TRIGGER orders_emit_created AFTER INSERT ON orders
  FOR EACH ROW EXECUTE FUNCTION emit_change('order.creation');
CREATE TRIGGER orders_emit_failed AFTER UPDATE ON orders
  FOR EACH ROW WHEN (NEW.status = 'invalid' AND OLD.status = 'processing')
  EXECUTE FUNCTION emit_change('certificate.issuance_failed');
CREATE TRIGGER crls_emit_published AFTER INSERT OR UPDATE ON crls
  FOR EACH ROW EXECUTE FUNCTION emit_change('crl.publication');
CREATE TRIGGER admin_audit_log_emit AFTER INSERT ON admin_audit_log
  FOR EACH ROW EXECUTE FUNCTION emit_change('admin.action');

-- A serial number that is recorded without a certificate gives the revocation alone, and the issuance when an import brings
-- the certificate. Triggers of one row run in the order of their names, so the issuance comes before its revocation.
CREATE TRIGGER certificates_emit_issued AFTER INSERT ON certificates
  FOR EACH ROW WHEN (NEW.der <> '') EXECUTE FUNCTION emit_change('certificate.issuance');
CREATE TRIGGER certificates_emit_known AFTER UPDATE ON certificates
  FOR EACH ROW WHEN (OLD.der = '' AND NEW.der <> '') EXECUTE FUNCTION emit_change('certificate.issuance');
CREATE TRIGGER certificates_emit_revoked AFTER INSERT OR UPDATE ON certificates
  FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION emit_change('certificate.revocation');

-- Hourly counts and the last failures of each account, for the console and the Admin API.
CREATE TABLE event_counts (
  hour timestamptz NOT NULL,
  kind text NOT NULL,
  events bigint NOT NULL,
  PRIMARY KEY (hour, kind)
);
CREATE TABLE account_failures (
  account_id uuid NOT NULL,
  event_id uuid NOT NULL,
  kind text NOT NULL,
  occurred_at timestamptz NOT NULL,
  data jsonb NOT NULL,
  PRIMARY KEY (account_id, occurred_at, event_id)
);
-- Failures of all accounts, the newest first.
CREATE INDEX account_failures_time ON account_failures (occurred_at, event_id);

-- Mails to account holders and administrators.
CREATE TABLE notifications (
  id uuid PRIMARY KEY, -- Version 7: the newest have the highest.
  notification_type text NOT NULL,
  recipient text NOT NULL,
  subject text NOT NULL,
  body_text text NOT NULL,
  body_html text NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sent', 'failed')),
  account_id uuid, -- Absent for administrators.
  error_detail text,
  retry_count integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  sent_at timestamptz,
  due_at timestamptz, -- Of the next attempt; absent when there will be none.
  claimed_by integer, -- The instance that is sending it.
  message_id text NOT NULL -- In every attempt, so that a mail server or a reader knows a repeated one.
) WITH (fillfactor = 80);
CREATE INDEX notifications_due ON notifications (status, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX notifications_status ON notifications (status, id);
CREATE INDEX notifications_recipient ON notifications (lower(recipient), id);
-- Notifications that have a limit, because clients cause them.
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
