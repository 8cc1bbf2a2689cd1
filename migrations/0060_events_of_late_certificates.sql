-- A certificate that is recorded as revoked gives both events, issuance and revocation, in this order; a serial number that is
-- recorded without a certificate gives the revocation alone. Relied on from release 0.2; the previous release writes the same rows.

-- `revoked_at` is there only where the certificate was revoked when it became known.
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
    IF NEW.revoked_at IS NOT NULL THEN
      body := body || jsonb_build_object('revoked_at', rfc3339(NEW.revoked_at));
    END IF;
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, new_id, 'certificate.issuance', NEW.id::text, NEW.account_id, clock_timestamp(), body
      FROM event_consumers c
     WHERE 'certificate.issuance' = ANY (c.kinds) AND ('certificate.issuance' <> ALL (c.holder_kinds) OR has_contact);
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER certificates_emit_issued ON certificates;
CREATE TRIGGER certificates_emit_issued AFTER INSERT ON certificates
  FOR EACH ROW WHEN (NEW.der <> '' AND coalesce(pg_sequence_last_value('wanted_certificate_issuance'::regclass), 2) = 2)
  EXECUTE FUNCTION emit_certificate_issued();

-- An import has brought the certificate of a serial number; certificates_emit_revoked follows at the end of the statement.
CREATE TRIGGER certificates_emit_known AFTER UPDATE ON certificates
  FOR EACH ROW WHEN (OLD.der = '' AND NEW.der <> '')
  EXECUTE FUNCTION emit_certificate_issued();

-- Triggers of one row run in the order of their names: the issuance comes first.
CREATE FUNCTION emit_certificate_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  has_contact boolean := EXISTS (SELECT FROM accounts h WHERE h.id = NEW.account_id AND h.contacts <> '{}');
  new_id uuid := gen_random_uuid();
BEGIN
  INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
  SELECT c.name, new_id, 'certificate.revocation', NEW.id::text, NEW.account_id, clock_timestamp(), jsonb_build_object(
           'certificate_id', NEW.id, 'account_id', NEW.account_id, 'serial_number', encode(NEW.serial_number, 'hex'),
           'domains', NEW.names, 'reason', revocation_reason_name(NEW.revocation_reason))
    FROM event_consumers c
   WHERE 'certificate.revocation' = ANY (c.kinds) AND ('certificate.revocation' <> ALL (c.holder_kinds) OR has_contact);
  RETURN NULL;
END $$;
CREATE TRIGGER certificates_emit_revoked_at_once AFTER INSERT ON certificates
  FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL)
  EXECUTE FUNCTION emit_certificate_revoked();
