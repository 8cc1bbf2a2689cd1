/** An issuance as a backup catches it between its intent and its certificate, which a client has. */

import { parseCertificate } from '../../../src/shared/pki/certificate.ts'

interface Asked {
  query(text: string, values: unknown[]): Promise<unknown>
}

export async function catchIssuance(database: Asked, der: Buffer): Promise<void> {
  await database.query(
    `WITH gone AS (DELETE FROM certificates WHERE der = $1 RETURNING *),
    moved AS (UPDATE orders SET status = 'processing', certificate_id = NULL WHERE id = (SELECT order_id FROM gone))
    INSERT INTO issuance_intents (certificate_id, order_id, account_id, serial_number, issuer_fingerprint, issuer_id, tbs, spki_sha256, instance_id)
    SELECT id, order_id, account_id, serial_number, issuer_fingerprint, 'default', $2, spki_sha256,
           (SELECT min(instance) FROM live_instances() AS instance) FROM gone`,
    [der, parseCertificate(der).tbsDer],
  )
}
