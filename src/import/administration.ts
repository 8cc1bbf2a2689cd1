/** Administrators with their password hashes, and the former audit log. */

import { lastImportedEntry } from '../admin/audit/audit-store.ts'
import { isUsableHash } from '../admin/users/password-hash.ts'
import { isUsername, type Role, USERNAME_RULE } from '../domain/administrator.ts'
import { UNSCOPED_ROLES } from '../domain/permissions.ts'
import { isMailAddress, MAIL_ADDRESS } from '../shared/lib/bounded.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { findUserForLogin, insertUser } from '../store/user-store.ts'
import { plan } from './grants.ts'
import type { ImportedAdministrator, ImportedAuditEntry, Outcome } from './model.ts'
import type { WritePage } from './page.ts'

export const writeAdministrators: WritePage<ImportedAdministrator> = async (page, context) => {
  const { tx, note, isDryRun } = context
  const outcomes: Outcome[] = []
  for (const user of page) {
    const { username } = user
    const fault = faultOf(user)
    if (fault) outcomes.push({ name: username, skipped: fault })
    else if (await findUserForLogin(tx, username)) outcomes.push('known')
    else if (isDryRun) outcomes.push(plan(context, `user ${username.toLowerCase()}`))
    else {
      const role = user.role as Role
      const made = await insertUser(tx, { ...user, role, id: uuidv7(Date.now()) })
      if (made) note('user.import', { username, role }, made.id)
      outcomes.push('new')
    }
  }
  return outcomes
}

function faultOf({ username, email, role, passwordHash }: ImportedAdministrator): string | undefined {
  if (!isUsername(username)) return `its username ${USERNAME_RULE}`
  if (!isMailAddress(email)) return `its address must be ${MAIL_ADDRESS}`
  if (!UNSCOPED_ROLES.includes(role as Role)) return `its role must be ${UNSCOPED_ROLES.join(' or ')}`
  return isUsableHash(passwordHash) ? undefined : 'its password hash is of a kind that cannot be verified here'
}

/** Entries come in the order of their time, so those up to the last one that is here are known. */
export const writeAuditEntries: WritePage<ImportedAuditEntry> = async (page, { tx, note, source, isDryRun }) => {
  const last = await lastImportedEntry(tx, source)
  const isKnown = ({ at, id }: ImportedAuditEntry) => {
    const time = at.toISOString()
    return last !== undefined && (time < last.at || (time === last.at && id <= last.id))
  }
  return page.map((entry): Outcome => {
    if (isKnown(entry)) return 'known'
    const { id, at, action, author, ipAddress, details } = entry
    if (!isDryRun)
      note('import.audit_entry', {
        from: source,
        id,
        at: at.toISOString(),
        action,
        author,
        ip_address: ipAddress,
        details,
      })
    return 'new'
  })
}
