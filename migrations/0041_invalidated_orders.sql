-- A deactivated authorization names the open orders that it ended. Relied on from release 0.2.

CREATE OR REPLACE FUNCTION emit_authorization_deactivated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM event_consumers WHERE 'authorization.deactivation' = ANY (kinds)) THEN
    PERFORM emit_event('authorization.deactivation', NEW.id::text, NEW.account_id, jsonb_build_object(
      'authorization_id', NEW.id, 'account_id', NEW.account_id, 'identifier', NEW.identifier_value,
      'identifier_type', NEW.identifier_type,
      -- Both ids begin with their time, and no order is older than an authorization that was made for it; the last
      -- digits of the time, about a minute, are left out, for clocks of other instances.
      'invalidated_orders', (
        SELECT coalesce(jsonb_agg(o.id ORDER BY o.id), '[]') FROM orders o
         WHERE o.account_id = NEW.account_id AND o.id >= (left(NEW.id::text, 8) || '-0000-0000-0000-000000000000')::uuid
           AND o.status = 'open' AND o.expires_at > now() AND NEW.id = ANY (o.authorization_ids))));
  END IF;
  RETURN NULL;
END $$;
