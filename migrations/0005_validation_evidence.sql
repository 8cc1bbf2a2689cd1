-- What the attempt that decided an authorization found. Relied on from release 0.1; the previous release ignores it.

-- {type, try, at, ms, result, …, steps}: a few kilobytes at most (src/domain/validation-evidence.ts). Null until decided.
ALTER TABLE authorizations ADD COLUMN evidence jsonb;
