-- Imported certificates are found by names that no order could have: common names, mail addresses, UPNs, URIs.
-- going back: certificates imported meanwhile have names in capitals, and none but DNS names and addresses.

-- How many of `names`, from the first, a successor must have; null for all.
ALTER TABLE certificates ADD COLUMN identifiers smallint;
