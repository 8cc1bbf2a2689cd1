-- A key is one thing wherever it is used: accounts are found by the hash that blocked_keys and certificates have.
-- going back: a proof does not end the other certificates with its key; a blocked key goes on ending its accounts.

-- SHA-256 of the SubjectPublicKeyInfo (RFC 5480 §2, RFC 3279 §2.3.1, RFC 8410 §4) of a canonical JWK; null for what is none.
CREATE FUNCTION account_spki_sha256(canonical_jwk text) RETURNS bytea
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  jwk jsonb := canonical_jwk::jsonb;
  -- What comes before the point; for RSA the AlgorithmIdentifier.
  head bytea := CASE coalesce(jwk->>'crv', jwk->>'kty')
    WHEN 'P-256' THEN '\x3059301306072a8648ce3d020106082a8648ce3d03010703420004'
    WHEN 'P-384' THEN '\x3076301006072a8648ce3d020106052b8104002203620004'
    WHEN 'P-521' THEN '\x30819b301006072a8648ce3d020106052b810400230381860004'
    WHEN 'Ed25519' THEN '\x302a300506032b6570032100'
    WHEN 'RSA' THEN '\x300d06092a864886f70d0101010500' END;
  der bytea := '';
  part text;
  content bytea;
BEGIN
  -- DER of an RSA key from the inside out; other keys are their coordinates.
  FOREACH part IN ARRAY CASE jwk->>'kty' WHEN 'RSA' THEN ARRAY['n', 'e', 'key', 'bits', 'info'] WHEN 'EC' THEN ARRAY['x', 'y'] ELSE ARRAY['x'] END LOOP
    content := CASE part
      WHEN 'key' THEN der
      WHEN 'bits' THEN '\x00' || der
      WHEN 'info' THEN head || der
      ELSE decode(rpad(translate(jwk->>part, '-_', '+/'), (length(jwk->>part) + 3) / 4 * 4, '='), 'base64') END;
    IF jwk->>'kty' = 'RSA' THEN
      IF part IN ('n', 'e') AND get_byte(content, 0) > 127 THEN content := '\x00' || content; END IF;
      content := CASE part WHEN 'bits' THEN '\x03'::bytea WHEN 'key' THEN '\x30' WHEN 'info' THEN '\x30' ELSE '\x02' END
        || CASE WHEN length(content) < 128 THEN decode(lpad(to_hex(length(content)), 2, '0'), 'hex')
                WHEN length(content) < 256 THEN '\x81' || decode(to_hex(length(content)), 'hex')
                ELSE '\x82' || decode(lpad(to_hex(length(content)), 4, '0'), 'hex') END
        || content;
    END IF;
    der := CASE WHEN part IN ('key', 'bits', 'info') THEN content ELSE der || content END;
  END LOOP;
  RETURN sha256(CASE jwk->>'kty' WHEN 'RSA' THEN der ELSE head || der END);
END $$;

-- When the holder of the key proved the compromise (RFC 8555 §7.6), and when all other certificates with it were revoked.
ALTER TABLE blocked_keys ADD COLUMN proved_at timestamptz, ADD COLUMN spread_at timestamptz;
