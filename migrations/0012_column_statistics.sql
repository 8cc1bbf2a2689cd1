-- No plan turns on how often a value of these columns occurs: each statement that looks at them has one index to find its rows by.
-- To sort 30,000 of them took 0.6 s of the 1.1 s that an ANALYZE of the large tables takes, once a minute while these are young,
-- on processors that requests wait for. Relied on by nothing; the release before leaves it alone.
ALTER TABLE orders ALTER COLUMN identifiers SET STATISTICS 0, ALTER COLUMN authorization_ids SET STATISTICS 0;
ALTER TABLE authorizations ALTER COLUMN offered SET STATISTICS 0, ALTER COLUMN attempts SET STATISTICS 0,
                           ALTER COLUMN evidence SET STATISTICS 0;
