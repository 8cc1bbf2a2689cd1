/** Asks the signer about other databases at work with it. The question leaves no trace there. */

import { readSharedSecret } from '../../../signer/protocol/handshake.ts'
import { SignerClient } from '../../ca/signer-client.ts'
import { describeOthers, signerRecords } from '../../ca/signer-records.ts'
import type { Config } from '../../config/schema.ts'
import type { Database } from '../../store/database.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { readIncarnation } from '../../store/incarnation.ts'
import { placeOf } from './signer.ts'

/**
 * @returns who else is there; empty for nobody, undefined where a signer of an earlier release cannot tell
 * @throws CannotTell, errors of database and signer
 */
export async function othersAtSigner(config: Config, db: Pick<Database, 'query'>): Promise<string | undefined> {
  const { socketPath, secretFile } = placeOf(config)
  const client = new SignerClient({ socketPath, secret: readSharedSecret(secretFile) })
  try {
    const { id } = await createDecisionStore(db).identity()
    const { incarnation } = await readIncarnation(db)
    const own = { database: id, incarnation }
    const use = await signerRecords(client).announce(own, { requester: 'chancery command', remember: false })
    return use && describeOthers(own, use)
  } finally {
    await client.close()
  }
}
