-- Certificates by a name and all below it. Relied on from release 0.2; the release before leaves the index alone.
-- On millions of certificates make function and index before the update, the index with CREATE INDEX CONCURRENTLY.

-- Every name, and what is left of it without its first label, its first two, and so on.
CREATE OR REPLACE FUNCTION name_suffixes(names text[]) RETURNS text[]
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  suffixes text[] := '{}';
  name text;
  dot integer;
BEGIN
  FOREACH name IN ARRAY names LOOP
    LOOP
      suffixes := suffixes || name;
      dot := strpos(name, '.');
      EXIT WHEN dot = 0;
      name := substr(name, dot + 1);
    END LOOP;
  END LOOP;
  RETURN suffixes;
END
$$;

DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_suffixes') AND NOT indisvalid) THEN
    DROP INDEX certificates_suffixes;
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS certificates_suffixes ON certificates USING gin (name_suffixes(names));
-- The share of a suffix is counted in a sample (certificate-suffix.ts).
ALTER INDEX certificates_suffixes ALTER COLUMN 1 SET STATISTICS 0;
