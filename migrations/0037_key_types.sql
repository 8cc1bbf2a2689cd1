-- Lists filter certificates by the type of their key, and show it (src/admin/certificates/certificate-filter.ts).
-- going back: an older release neither continues bulk revocations by key type nor lists jobs and incidents while one is among them.

-- 'RSA-2048' and so on, 'P-256', 'P-384', 'P-521', 'Ed25519' or 'other'; null where the certificate is not stored, ends
-- before its key, or has a length from 64 KiB on. It never fails, since a list must not fail by one row. A column would cost each issuance something, and
-- older rows would not have it; this takes about five microseconds a row that is read. It calls no function of this schema, so
-- that an index may use it.
CREATE FUNCTION key_type(certificate bytea) RETURNS text
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  der bytea := certificate || ''; -- A long value is read from its TOAST table once.
  readable integer := octet_length(der) - 5; -- Behind it there may be no head of a value.
  place integer := 0; -- Of the tag of a value.
  content integer; -- The place of its content, and the place behind it.
  behind integer;
BEGIN
  FOR field IN 1..13 LOOP
    IF place > readable THEN RETURN NULL; END IF;
    IF get_byte(der, place + 1) > 130 THEN RETURN NULL; END IF;
    content := place + CASE get_byte(der, place + 1) WHEN 129 THEN 3 WHEN 130 THEN 4 ELSE 2 END;
    behind := content + CASE content - place
                          WHEN 3 THEN get_byte(der, place + 2)
                          WHEN 4 THEN get_byte(der, place + 2) * 256 + get_byte(der, place + 3)
                          ELSE get_byte(der, place + 1) END;
    IF field BETWEEN 4 AND 8 THEN place := behind; -- serialNumber, signature, issuer, validity, subject
    ELSIF field IN (1, 2, 9, 12) THEN place := content; -- Certificate, TBSCertificate, SubjectPublicKeyInfo, RSAPublicKey
    ELSIF field = 3 THEN
      IF get_byte(der, place) = 160 THEN place := behind; END IF; -- version
    ELSIF field = 10 THEN -- AlgorithmIdentifier
      CASE substr(der, content + 1, behind - content)
        WHEN '\x06072a8648ce3d020106082a8648ce3d030107' THEN RETURN 'P-256';
        WHEN '\x06092a864886f70d0101010500' THEN place := behind;
        WHEN '\x06072a8648ce3d020106052b81040022' THEN RETURN 'P-384';
        WHEN '\x06072a8648ce3d020106052b81040023' THEN RETURN 'P-521';
        WHEN '\x06032b6570' THEN RETURN 'Ed25519';
        ELSE RETURN 'other';
      END CASE;
    ELSIF field = 11 THEN place := content + 1; -- BIT STRING, without its count of unused bits
    END IF;
  END LOOP;
  -- The modulus begins with an empty octet where its highest bit is set.
  RETURN 'RSA-' || (behind - content - 1) * 8 + length(ltrim(get_byte(der, content)::bit(8)::text, '0'));
END
$$;
