-- What another server had, taken over (docs/decisions/path-map.md).
-- going back: accounts that came from another server are not found under their former URLs.

-- Paths that accounts had at a former server: their clients send them as `kid` and post to them.
CREATE TABLE account_paths (
  path text PRIMARY KEY CHECK (length(path) BETWEEN 1 AND 255),
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE
);
CREATE INDEX account_paths_account ON account_paths (account_id);

-- As in 0008, but silent while an import says so: nobody wants mails and webhooks about what is years old.
CREATE OR REPLACE FUNCTION emit_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  new_kind text := TG_ARGV[0];
  about text;
  account uuid;
  consumers text[];
  new_id uuid;
  facts jsonb;
BEGIN
  IF current_setting('chancery.import', true) = 'on' THEN RETURN NULL; END IF;
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
