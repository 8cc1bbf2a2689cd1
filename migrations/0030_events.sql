-- Events: what happened, one row for each consumer that has yet to take it. Relied on from release 0.2.
-- Triggers write them in the transaction of the change, whoever makes it; the previous release's changes count too.

-- Who wants which kinds. An instance that is configured for a consumer keeps its row.
CREATE TABLE event_consumers (
  name text PRIMARY KEY,
  kinds text[] NOT NULL,
  -- By an instance that delivers to it.
  seen_at timestamptz NOT NULL DEFAULT now()
);

-- A row leaves when its consumer has taken the event. No row is read by position, so none is passed over
-- when a lower sequence commits later.
CREATE TABLE event_deliveries (
  consumer text NOT NULL REFERENCES event_consumers ON DELETE CASCADE,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  -- The same for all consumers of one event.
  event_id uuid NOT NULL,
  kind text NOT NULL,
  -- Events of one subject are delivered in their order.
  subject text NOT NULL,
  account_id uuid,
  occurred_at timestamptz NOT NULL,
  data jsonb NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT now(),
  -- The instance that is delivering it.
  claimed_by integer,
  error text,
  PRIMARY KEY (consumer, sequence)
) WITH (fillfactor = 80);
CREATE INDEX event_deliveries_subject ON event_deliveries (consumer, subject, sequence);

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

CREATE FUNCTION event_wanted(wanted text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM event_consumers WHERE wanted = ANY (kinds))
$$;

-- One event, for each consumer that wants it.
CREATE FUNCTION emit_event(new_kind text, new_subject text, new_account uuid, new_data jsonb) RETURNS void
LANGUAGE sql AS $$
  WITH event AS MATERIALIZED (SELECT gen_random_uuid() AS id)
  INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
  SELECT c.name, event.id, new_kind, new_subject, new_account, clock_timestamp(), new_data
    FROM event_consumers c, event WHERE new_kind = ANY (c.kinds)
$$;

CREATE FUNCTION rfc3339(at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;

-- RFC 5280 §5.3.1.
CREATE FUNCTION revocation_reason_name(code smallint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((ARRAY['unspecified', 'keyCompromise', 'cACompromise', 'affiliationChanged', 'superseded',
    'cessationOfOperation', 'certificateHold', NULL, 'removeFromCRL', 'privilegeWithdrawn', 'aACompromise'])[code + 1], 'unspecified')
$$;

-- Statement triggers where many rows come at once: one question when nobody wants the event, one insert when somebody does.
CREATE FUNCTION emit_certificates_issued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF event_wanted('certificate.issuance') THEN
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, id, account_id, jsonb_build_object(
               'certificate_id', id, 'order_id', order_id, 'account_id', account_id,
               'serial_number', encode(serial_number, 'hex'), 'domains', names, 'not_after', rfc3339(not_after)) AS data
        FROM added
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, 'certificate.issuance', e.id::text, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON 'certificate.issuance' = ANY (c.kinds);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER certificates_emit_issued AFTER INSERT ON certificates
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION emit_certificates_issued();

-- As in 0007: certificates change by revocation only.
CREATE FUNCTION emit_certificates_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF event_wanted('certificate.revocation') THEN
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, n.id, n.account_id, jsonb_build_object(
               'certificate_id', n.id, 'account_id', n.account_id, 'serial_number', encode(n.serial_number, 'hex'),
               'domains', n.names, 'reason', revocation_reason_name(n.revocation_reason)) AS data
        FROM changed n WHERE n.revoked_at IS NOT NULL
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, 'certificate.revocation', e.id::text, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON 'certificate.revocation' = ANY (c.kinds);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER certificates_emit_revoked AFTER UPDATE ON certificates
  REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION emit_certificates_revoked();

CREATE FUNCTION emit_orders_created() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF event_wanted('order.creation') THEN
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, id, account_id, jsonb_build_object(
               'order_id', id, 'account_id', account_id, 'identifiers', identifiers, 'authz_ids', authorization_ids) AS data
        FROM added
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, 'order.creation', e.id::text, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON 'order.creation' = ANY (c.kinds);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER orders_emit_created AFTER INSERT ON orders
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION emit_orders_created();

CREATE FUNCTION emit_accounts_registered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF event_wanted('account.registration') THEN
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, id, id AS account_id, jsonb_build_object(
               'account_id', id, 'contacts', contacts, 'jwk_thumbprint', thumbprint, 'tos_agreed', terms_agreed) AS data
        FROM added
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, 'account.registration', e.id::text, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON 'account.registration' = ANY (c.kinds);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER accounts_emit_registered AFTER INSERT ON accounts
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION emit_accounts_registered();

-- Row triggers where the change is rare: their condition costs next to nothing on all other rows.
CREATE FUNCTION emit_order_failed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM emit_event('certificate.issuance_failed', NEW.id::text, NEW.account_id, jsonb_build_object(
    'order_id', NEW.id, 'account_id', NEW.account_id, 'identifiers', NEW.identifiers, 'error', NEW.error));
  RETURN NULL;
END $$;
CREATE TRIGGER orders_emit_failed AFTER UPDATE ON orders
  FOR EACH ROW WHEN (NEW.status = 'invalid' AND OLD.status = 'processing') EXECUTE FUNCTION emit_order_failed();

CREATE FUNCTION emit_account_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.thumbprint <> OLD.thumbprint THEN
    PERFORM emit_event('account.key_change', NEW.id::text, NEW.id, jsonb_build_object(
      'account_id', NEW.id, 'old_thumbprint', OLD.thumbprint, 'new_thumbprint', NEW.thumbprint));
  END IF;
  IF NEW.status <> OLD.status THEN
    PERFORM emit_event(CASE NEW.status WHEN 'deactivated' THEN 'account.deactivation' ELSE 'account.revocation' END,
      NEW.id::text, NEW.id, jsonb_build_object(
        'account_id', NEW.id,
        'deactivated_authorizations', (SELECT count(*) FROM authorizations z
                                        WHERE z.account_id = NEW.id AND z.status = 'valid' AND z.expires_at > now())));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER accounts_emit_changed AFTER UPDATE ON accounts
  FOR EACH ROW WHEN (NEW.status <> OLD.status OR NEW.thumbprint <> OLD.thumbprint) EXECUTE FUNCTION emit_account_changed();

CREATE FUNCTION emit_authorization_deactivated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM emit_event('authorization.deactivation', NEW.id::text, NEW.account_id, jsonb_build_object(
    'authorization_id', NEW.id, 'account_id', NEW.account_id, 'identifier', NEW.identifier_value,
    'identifier_type', NEW.identifier_type));
  RETURN NULL;
END $$;
CREATE TRIGGER authorizations_emit_deactivated AFTER UPDATE ON authorizations
  FOR EACH ROW WHEN (NEW.status = 'deactivated' AND OLD.status <> 'deactivated')
  EXECUTE FUNCTION emit_authorization_deactivated();

CREATE FUNCTION emit_admin_action() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM emit_event('admin.action', NEW.id::text, NULL, jsonb_build_object(
    'id', NEW.id, 'user_id', NEW.user_id, 'action', NEW.action, 'target_user_id', NEW.target_user_id,
    'details', NEW.details, 'ip_address', NEW.ip_address, 'created_at', rfc3339(NEW.created_at)));
  RETURN NULL;
END $$;
CREATE TRIGGER admin_audit_log_emit AFTER INSERT ON admin_audit_log
  FOR EACH ROW EXECUTE FUNCTION emit_admin_action();

CREATE FUNCTION emit_crl_published() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM emit_event('crl.publication', NEW.issuer_id || ' ' || NEW.shard, NULL, jsonb_build_object(
    'issuer', NEW.issuer_id, 'shard', NEW.shard, 'number', NEW.number, 'entries', NEW.entries,
    'this_update', rfc3339(NEW.this_update), 'next_update', rfc3339(NEW.next_update)));
  RETURN NULL;
END $$;
CREATE TRIGGER crls_emit_published AFTER INSERT OR UPDATE ON crls
  FOR EACH ROW EXECUTE FUNCTION emit_crl_published();

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
