-- Orders that another CA has issued for after an interruption are told of as recovered. Relied on from release 0.2; the previous
-- release leaves the column alone.

-- A step has ended without its answer, as after a crash.
ALTER TABLE csr_issuances ADD COLUMN was_interrupted boolean NOT NULL DEFAULT false;
