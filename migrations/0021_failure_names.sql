-- Names that a failure of an account is about, so that a refused order is found by its names.
-- going back: nothing is missed.

-- A refused name is a client's text of any length, and an index entry has a bound.
CREATE FUNCTION failure_names(data jsonb) RETURNS text[]
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT coalesce(array_agg(DISTINCT left(lower(found.name #>> '{}'), 255)), '{}')
    FROM unnest(ARRAY['$.identifier_value', '$.identifiers[*].value', '$.rejected_identifiers[*].value',
                      '$.attempted_identifiers[*].value']::jsonpath[]) AS place,
         LATERAL jsonb_path_query(data, place) AS found (name)
   WHERE jsonb_typeof(found.name) = 'string'
$$;
