-- Events cost less: nothing is written about an account that nobody could write to. Relied on from release 0.2.
-- The previous release writes and reads as before; it leaves holder_kinds alone.

-- Of `kinds`, those that are wanted only about accounts with a contact.
ALTER TABLE event_consumers ADD COLUMN holder_kinds text[] NOT NULL DEFAULT '{}';

-- Every insert locked its consumer's row, one row for all certificates. What waits for a consumer that is gone
-- leaves with removeUnseenConsumers().
ALTER TABLE event_deliveries DROP CONSTRAINT event_deliveries_consumer_fkey;

-- Consumers in the database take all subjects at once, and need no order among them.
DROP INDEX event_deliveries_subject;
CREATE INDEX event_deliveries_subject ON event_deliveries (consumer, subject, sequence)
  WHERE consumer NOT IN ('notifications', 'statistics');

-- Whether anybody has ever asked for the two kinds of each certificate: 2, or 1 when nobody has. The condition of a
-- trigger may read a sequence, and may not query; without it, each insert would call a function.
CREATE SEQUENCE wanted_certificate_issuance;
CREATE SEQUENCE wanted_order_creation;
-- The same of issuances to accounts without a contact.
CREATE SEQUENCE wanted_issuance_of_all;
SELECT setval('wanted_certificate_issuance', 1), setval('wanted_order_creation', 1), setval('wanted_issuance_of_all', 1);

CREATE FUNCTION note_wanted_kinds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF 'certificate.issuance' = ANY (NEW.kinds) THEN
    IF 'certificate.issuance' <> ALL (NEW.holder_kinds) THEN PERFORM setval('wanted_issuance_of_all', 2); END IF;
    PERFORM setval('wanted_certificate_issuance', 2);
  END IF;
  IF 'order.creation' = ANY (NEW.kinds) THEN PERFORM setval('wanted_order_creation', 2); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER event_consumers_wanted AFTER INSERT OR UPDATE ON event_consumers
  FOR EACH ROW EXECUTE FUNCTION note_wanted_kinds();
UPDATE event_consumers SET kinds = kinds;

-- Row by row: a transition table costs more than the few rows of a group.
DROP TRIGGER certificates_emit_issued ON certificates;
DROP FUNCTION emit_certificates_issued;
CREATE FUNCTION emit_certificate_issued() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  has_contact boolean := EXISTS (SELECT FROM accounts h WHERE h.id = NEW.account_id AND h.contacts <> '{}');
  new_id uuid;
BEGIN
  IF has_contact OR coalesce(pg_sequence_last_value('wanted_issuance_of_all'::regclass), 2) = 2 THEN
    new_id := gen_random_uuid();
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, new_id, 'certificate.issuance', NEW.id::text, NEW.account_id, clock_timestamp(), jsonb_build_object(
             'certificate_id', NEW.id, 'order_id', NEW.order_id, 'account_id', NEW.account_id,
             'serial_number', encode(NEW.serial_number, 'hex'), 'domains', NEW.names, 'not_after', rfc3339(NEW.not_after))
      FROM event_consumers c
     WHERE 'certificate.issuance' = ANY (c.kinds) AND ('certificate.issuance' <> ALL (c.holder_kinds) OR has_contact);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER certificates_emit_issued AFTER INSERT ON certificates
  FOR EACH ROW WHEN (coalesce(pg_sequence_last_value('wanted_certificate_issuance'::regclass), 2) = 2)
  EXECUTE FUNCTION emit_certificate_issued();

DROP TRIGGER orders_emit_created ON orders;
DROP FUNCTION emit_orders_created;
CREATE FUNCTION emit_order_created() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  new_id uuid := gen_random_uuid();
BEGIN
  INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
  SELECT c.name, new_id, 'order.creation', NEW.id::text, NEW.account_id, clock_timestamp(), jsonb_build_object(
           'order_id', NEW.id, 'account_id', NEW.account_id, 'identifiers', NEW.identifiers, 'authz_ids', NEW.authorization_ids)
    FROM event_consumers c WHERE 'order.creation' = ANY (c.kinds);
  RETURN NULL;
END $$;
CREATE TRIGGER orders_emit_created AFTER INSERT ON orders
  FOR EACH ROW WHEN (coalesce(pg_sequence_last_value('wanted_order_creation'::regclass), 2) = 2)
  EXECUTE FUNCTION emit_order_created();

-- A function in SQL is planned at each call of a trigger; a query in PL/pgSQL once a session.
CREATE OR REPLACE FUNCTION emit_certificates_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM event_consumers WHERE 'certificate.revocation' = ANY (kinds)) THEN
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, n.id, n.account_id, jsonb_build_object(
               'certificate_id', n.id, 'account_id', n.account_id, 'serial_number', encode(n.serial_number, 'hex'),
               'domains', n.names, 'reason', revocation_reason_name(n.revocation_reason)) AS data
        FROM changed n WHERE n.revoked_at IS NOT NULL
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, 'certificate.revocation', e.id::text, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON 'certificate.revocation' = ANY (c.kinds)
     WHERE 'certificate.revocation' <> ALL (c.holder_kinds)
        OR EXISTS (SELECT FROM accounts h WHERE h.id = e.account_id AND h.contacts <> '{}');
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION emit_accounts_registered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM event_consumers WHERE 'account.registration' = ANY (kinds)) THEN
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, id, id AS account_id, contacts, jsonb_build_object(
               'account_id', id, 'contacts', contacts, 'jwk_thumbprint', thumbprint, 'tos_agreed', terms_agreed) AS data
        FROM added
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, 'account.registration', e.id::text, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON 'account.registration' = ANY (c.kinds)
     WHERE 'account.registration' <> ALL (c.holder_kinds) OR e.contacts <> '{}';
  END IF;
  RETURN NULL;
END $$;

DROP FUNCTION event_wanted;
