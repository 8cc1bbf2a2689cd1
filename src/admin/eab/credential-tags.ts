/** `PATCH /eab/{cred_id}`: other tags for a credential. Accounts that are registered with it keep theirs. */

import * as z from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { scopeOf } from '../../domain/permissions.ts'
import { withAccountName } from '../account-names.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { tagList } from '../schemas.ts'
import { credentialBody, credentialParams, EabCredential, requireCredential } from './credential-endpoints.ts'
import { type CredentialRow, lockCredential, writeTags } from './credential-store.ts'
import { requireMayTag } from './registrar-credentials.ts'

export const EAB_TAGS = endpointGroup('EAB credentials', {
  updateEabCredential: endpoint({
    route: 'PATCH /eab/{cred_id}',
    permission: 'onboard',
    scope: 'credentials',
    summary:
      'Gives a credential other tags; its accounts keep theirs. A registrar changes only tags of its scope, and leaves one of them.',
    params: credentialParams,
    body: z.strictObject({ tags: tagList() }),
    reply: { status: 200, schema: EabCredential },
    errors: ['forbidden'],
    audit: 'eab.update',
    handle: async ({ params, body, author }, { db, audit }) => ({
      body: credentialBody(await withAccountName(db, await retag(audit, author, params.cred_id, body.tags))),
    }),
  }),
})

function retag(audit: AuditLog, actor: Actor, id: string, tags: readonly string[]): Promise<CredentialRow> {
  const scope = scopeOf(actor)
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockCredential(tx, id))) throw notFound('credential')
    const before = await requireCredential(tx, id, scope)
    await requireMayTag(tx, scope, before, tags)
    if (tags.join() === before.tags.join()) return before
    await writeTags(tx, id, tags)
    note('eab.update', { eab_id: id, kid: before.kid, tags: { before: before.tags, after: tags } })
    return requireCredential(tx, id, scope)
  })
}
