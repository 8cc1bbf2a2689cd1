/** Commands on operations of the Admin API that do more than one operation with its members as options. */

import type { SharedCommand } from '../operations/shared-command.ts'
import { AUDIT, TERMS, USERS } from './administration.ts'
import { CRL } from './crl.ts'
import { EAB } from './eab.ts'
import { IDENTIFIERS } from './identifiers.ts'
import { PROFILES } from './profiles.ts'
import { RENEWALS } from './renewals.ts'
import { REVOKE } from './revocation.ts'

export const SHARED: readonly SharedCommand[] = [
  REVOKE,
  ...RENEWALS,
  ...CRL,
  ...EAB,
  ...IDENTIFIERS,
  ...PROFILES,
  ...TERMS,
  ...USERS,
  ...AUDIT,
]
