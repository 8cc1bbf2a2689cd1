/** Brings back revoked credentials, and names and tags that were taken from them and from accounts. */

import * as z from 'zod/v4'
import { deleteWithApprovals, disallowWithApprovals } from '../eab/allowed-identifiers.ts'
import {
  findCredential,
  lockCredential,
  lockGrantsOfAccount,
  revokeCredential,
  writeTags,
} from '../eab/credential-store.ts'
import { disallowToAccount } from '../eab/identifier-store.ts'
import { changed, restoredAs, restoredIf, restoring, withoutRemoved } from './restore.ts'

const Name = z.object({ identifier_id: z.string() })
const Credential = z.object({ eab_id: z.string() })

export const CREDENTIAL_RESTORES = {
  'eab.revoke': restoring(Credential, async (tx, { eab_id: id }) => {
    await lockCredential(tx, id)
    const before = await findCredential(tx, id, undefined)
    if (!before) return 'overtaken'
    const revocation = await revokeCredential(tx, id)
    return restoredIf(!before.revoked || (revocation?.revokedAccounts.length ?? 0) > 0)
  }),
  'eab.update': restoring(
    Credential.extend({ tags: changed(z.array(z.string())) }),
    async (tx, { eab_id: id, tags }) => {
      await lockCredential(tx, id)
      const now = await findCredential(tx, id, undefined)
      if (!now) return 'overtaken'
      const left = withoutRemoved(now.tags, tags)
      if (left.isChanged) await writeTags(tx, id, left.tags)
      return restoredAs(left)
    },
  ),
  'eab.remove_identifier': restoring(Credential.extend(Name.shape), async (tx, { eab_id: id, identifier_id: name }) => {
    await lockCredential(tx, id)
    return restoredIf((await disallowWithApprovals(tx, name, id)) !== undefined)
  }),
  'identifier.delete': restoring(Name, async (tx, { identifier_id: name }) =>
    restoredIf((await deleteWithApprovals(tx, name)) !== undefined),
  ),
  'identifier.remove_account': restoring(
    Name.extend({ account_id: z.string() }),
    async (tx, { account_id: id, identifier_id: name }) => {
      await lockGrantsOfAccount(tx, id)
      return restoredIf((await disallowToAccount(tx, name, id)) !== 'absent')
    },
  ),
}
