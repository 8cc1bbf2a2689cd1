/** Binding credentials and what accounts may do, made in a test database by the use cases of administrators. */

import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import {
  type CredentialRow,
  insertCredential,
  type NewCredential,
  pagesOfCredentials,
  type Revocation,
  revokeCredential,
} from '../../src/admin/eab/credential-store.ts'
import { grantNames } from '../../src/admin/grants/grants.ts'
import { HistoryIndexes } from '../../src/admin/profiles/history-indexes.ts'
import { createProfile } from '../../src/admin/profiles/profile-endpoints.ts'
import type { AllowedIdentifier } from '../../src/domain/allowlist.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { newId } from './support.ts'

const ACTOR = { userId: undefined, username: 'tests', role: 'admin', ipAddress: undefined } as const

export type Grants = Awaited<ReturnType<typeof openGrants>>

export async function openGrants(settings: DatabaseSettings) {
  const db = await openCheckedDatabase(settings)
  const audit = new AuditLog(db, undefined)
  const historyIndexes = new HistoryIndexes(db, undefined)
  let kids = 0
  return {
    db,
    audit,
    actor: ACTOR,
    async credential(over: Partial<NewCredential> = {}): Promise<CredentialRow> {
      const sealedKey = Buffer.alloc(61)
      const facts = { label: undefined, createdBy: undefined, profiles: undefined, preapprovedNetworks: undefined }
      const limits = { expiresAt: undefined, maxUses: undefined, allowedNetworks: undefined }
      const id = newId()
      const wanted = { id, kid: `kid-${++kids}-${id}`, sealedKey, ...facts, ...limits, ...over }
      const made = await insertCredential(db, wanted)
      if (!made) throw new Error(`the kid ${wanted.kid} is taken`)
      return made
    },
    grant: (credentialId: string, wanted: readonly AllowedIdentifier[]) =>
      audit.transaction(ACTOR, (tx, note) => grantNames(tx, note, ACTOR, credentialId, wanted)),
    find: async (kid: string): Promise<CredentialRow | null> =>
      (await pagesOfCredentials(db, { kid })(undefined, 1)).rows[0] ?? null,
    revoke: (id: string): Promise<Revocation | null> => db.transaction((tx) => revokeCredential(tx, id)),
    async profile(data: object = { san_maximum: 3 }): Promise<string> {
      const made = await createProfile({ audit, historyIndexes }, ACTOR, {
        name: newId(),
        description: undefined,
        data,
      })
      return made.id
    },
    end: () => db.end(),
  }
}
