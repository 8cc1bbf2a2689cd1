-- Former keys of accounts: the newest ten, as every key change keeps them from now on. The release before appends without
-- a bound, which the next key change under this one corrects.
UPDATE accounts SET former_thumbprints = former_thumbprints[cardinality(former_thumbprints) - 9:]
 WHERE cardinality(former_thumbprints) > 10;
