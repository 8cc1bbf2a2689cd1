-- What a binding credential gives its accounts beside names: certificate profiles, and pre-approval from its own networks.
-- Relied on from release 0.1; the previous release ignores it, so an account that registers there with such a credential
-- has neither the restriction nor the right. Make such credentials when every instance runs this release.

ALTER TABLE eab_credentials
  -- CA profiles its accounts may order, the one for orders without a choice first; null for all.
  ADD COLUMN profiles text[] CHECK (cardinality(profiles) > 0),
  -- Identifiers of its allowlist that are ordered from here need no challenge; null for none.
  ADD COLUMN preapproved_networks cidr[] CHECK (cardinality(preapproved_networks) > 0);

-- Copied when the account is registered.
ALTER TABLE accounts
  ADD COLUMN allowed_profiles text[],
  ADD COLUMN preapproved_networks cidr[];

-- Valid without a challenge, because of a credential or of `challenges.auto_accept`: not handed to an order that would have
-- had to show control.
ALTER TABLE authorizations ADD COLUMN approved boolean NOT NULL DEFAULT false;

-- Whether a credential's allowlist names an identifier, as isAllowed in src/domain/allowlist.ts says it. The value is that
-- of an authorization: a wildcard comes without its `*.`, and is allowed by entries that begin with it alone.
CREATE FUNCTION credential_allows(credential uuid, type text, value text, wildcard boolean) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM eab_allowed_identifiers e JOIN allowed_identifiers n ON n.id = e.identifier_id
     WHERE e.eab_credential_id = credential
       AND CASE
             WHEN n.identifier_type <> type THEN false
             WHEN type = 'ip' THEN value::inet <<= n.identifier_value::inet
             WHEN starts_with(n.identifier_value, '*.')
               THEN value = substr(n.identifier_value, 3) OR right(value, length(n.identifier_value) - 1) = substr(n.identifier_value, 2)
             ELSE NOT wildcard AND value = n.identifier_value
           END)
$$;
