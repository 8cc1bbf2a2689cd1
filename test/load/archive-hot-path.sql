-- What issuance and look-ups do to certificates: an insert, and one row each by serial number, order and fingerprint.
\set n random(1, 10000000)
INSERT INTO THE_TABLE (id, order_id, serial_number, issuer_fingerprint, not_after, der)
SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || substr(md5(random()::text), 1, 20))::uuid,
       gen_random_uuid(), decode('20' || md5(random()::text), 'hex'), '\x01', now() + interval '90 days', decode(md5(random()::text), 'hex');
SELECT order_id FROM THE_TABLE WHERE serial_number = decode('10' || md5(:n::integer::text), 'hex') \gset
SELECT serial_number FROM THE_TABLE WHERE order_id = :order_id::uuid;
SELECT serial_number FROM THE_TABLE WHERE sha256(der) = sha256(decode(md5(:n::integer::text), 'hex'));
