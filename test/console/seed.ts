/** Certificates for the console to show: one that a client has got, and rows beside it. */

import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type AcmeClient, type Obtained, registeredClient, startResponder } from '../support/acme-client.ts'
import { rowsIn } from '../support/database.ts'
import type { TestService } from '../support/service.ts'

export interface Issued extends Obtained {
  client: AcmeClient
  serial: string
}

/** By a client of its own, with a validation and its evidence. */
export async function issue(service: TestService, names: readonly string[]): Promise<Issued> {
  const responder = await startResponder(service.http01Port)
  try {
    const client = await registeredClient(service.directoryUrl)
    const obtained = await client.obtain([...names], responder)
    const [row] = await rowsIn<{ serial: string }>(
      service.database,
      "SELECT encode(serial_number, 'hex') AS serial FROM certificates WHERE der = $1",
      [obtained.der],
    )
    return { ...obtained, client, serial: row?.serial ?? '' }
  } finally {
    await responder.close()
  }
}

/** Copies of an issued certificate under other names, of the hours before `now`, ending in the weeks after. */
export async function addRows(
  service: TestService,
  { serial }: Pick<Issued, 'serial'>,
  names: readonly string[],
  now = Date.now(),
): Promise<void> {
  for (const [index, name] of names.entries()) {
    const at = now - index * 31 * 60_000
    await rowsIn(
      service.database,
      `INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after,
                                 der, issued_at)
       SELECT $1, account_id, NULL, substr(sha256($2::bytea), 1, 16), issuer_fingerprint, ARRAY[$3], $4::timestamptz,
              $4::timestamptz + make_interval(days => 1 + ($5 * 7) % 60), der || $2::bytea, $4
         FROM certificates WHERE serial_number = decode($6, 'hex')`,
      [uuidv7(at), Buffer.from(`row ${index} ${name}`), name, new Date(at), index, serial],
    )
  }
}

/** Thousands at once. */
export const addMany = (service: TestService, count: number) =>
  rowsIn(
    service.database,
    `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, issued_at)
     SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, decode('7f' || lpad(to_hex(n), 14, '0'), 'hex'),
            '\\x07', ARRAY['many-' || n || '.test'], now(), now() + interval '40 days', decode(lpad(to_hex(n), 8, '0'), 'hex'),
            now()
       FROM generate_series(1, $1) n`,
    [count],
  )
