-- A bulk revocation of more certificates than these was not confirmed: it ends as 'refused'. Null for any number.
ALTER TABLE bulk_revocations ADD COLUMN at_most integer;
