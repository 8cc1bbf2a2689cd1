-- Deliveries cost less: the text of an event is made once, not once for each of its consumers. Relied on from release 0.2.
-- The previous release writes and reads the same rows.

-- A claim stays on its page, and writes to no index; the table is short.
ALTER TABLE event_deliveries SET (fillfactor = 45);

CREATE OR REPLACE FUNCTION emit_certificate_issued() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  has_contact boolean := EXISTS (SELECT FROM accounts h WHERE h.id = NEW.account_id AND h.contacts <> '{}');
  new_id uuid;
  body jsonb;
BEGIN
  IF has_contact OR coalesce(pg_sequence_last_value('wanted_issuance_of_all'::regclass), 2) = 2 THEN
    new_id := gen_random_uuid();
    body := jsonb_build_object(
      'certificate_id', NEW.id, 'order_id', NEW.order_id, 'account_id', NEW.account_id,
      'serial_number', encode(NEW.serial_number, 'hex'), 'domains', NEW.names, 'not_after', rfc3339(NEW.not_after));
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, new_id, 'certificate.issuance', NEW.id::text, NEW.account_id, clock_timestamp(), body
      FROM event_consumers c
     WHERE 'certificate.issuance' = ANY (c.kinds) AND ('certificate.issuance' <> ALL (c.holder_kinds) OR has_contact);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION emit_order_created() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  new_id uuid := gen_random_uuid();
  body jsonb := jsonb_build_object(
    'order_id', NEW.id, 'account_id', NEW.account_id, 'identifiers', NEW.identifiers, 'authz_ids', NEW.authorization_ids);
BEGIN
  INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
  SELECT c.name, new_id, 'order.creation', NEW.id::text, NEW.account_id, clock_timestamp(), body
    FROM event_consumers c WHERE 'order.creation' = ANY (c.kinds);
  RETURN NULL;
END $$;
