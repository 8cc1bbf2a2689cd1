/** All endpoints with which an operator looks at the service and runs it. */

import { CRLS } from './crl-endpoints.ts'
import { DEAD_LETTER_GROUPS, DEAD_LETTERS } from './dead-letter-endpoints.ts'
import { ISSUERS } from './issuer-endpoints.ts'
import { NOTIFICATIONS } from './notification-endpoints.ts'
import { OVERVIEW } from './overview-endpoints.ts'
import { SETTINGS } from './settings-endpoints.ts'
import { EVENT_COUNTS, FAILURES } from './statistics-endpoints.ts'
import { SWITCHES } from './switch-endpoints.ts'
import { TERMS } from './terms-endpoints.ts'
import { WORKERS } from './worker-endpoints.ts'

export const OPERATION = {
  ...OVERVIEW,
  ...SWITCHES,
  ...CRLS,
  ...SETTINGS,
  ...WORKERS,
  ...EVENT_COUNTS,
  ...FAILURES,
  ...DEAD_LETTER_GROUPS,
  ...DEAD_LETTERS,
  ...NOTIFICATIONS,
  ...TERMS,
  ...ISSUERS,
}
