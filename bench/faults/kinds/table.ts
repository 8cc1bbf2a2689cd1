/** Every kind of fault, by the name that `--kinds` takes. */

import { CERTIFICATE_KINDS } from './certificates.ts'
import { CLOCK_KINDS } from './clocks.ts'
import { DISK_KINDS } from './disks.ts'
import type { Kinds } from './kind.ts'
import { MEMORY_KINDS } from './memory.ts'
import { NETWORK_KINDS } from './networks.ts'
import { PROCESS_KINDS } from './processes.ts'
import { PROMOTION_KINDS } from './promotions.ts'
import { RECORD_KINDS } from './records.ts'
import { TOKEN_KINDS } from './token.ts'

export const KINDS: Kinds = {
  ...PROCESS_KINDS,
  ...DISK_KINDS,
  ...NETWORK_KINDS,
  ...CLOCK_KINDS,
  ...MEMORY_KINDS,
  ...PROMOTION_KINDS,
  ...RECORD_KINDS,
  ...CERTIFICATE_KINDS,
  ...TOKEN_KINDS,
}

/** The kinds that this machine can carry out. */
export const POSSIBLE = Object.keys(KINDS).filter((name) => KINDS[name]?.impossible === undefined)
