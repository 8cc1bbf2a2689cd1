/** Every kind of fault, by the name that `--kinds` takes. */

import { HOST_KINDS } from './host.ts'
import type { Kinds } from './kind.ts'
import { NETWORK_KINDS } from './networks.ts'
import { PROCESS_KINDS } from './processes.ts'
import { PROMOTION_KINDS } from './promotions.ts'
import { RECORD_KINDS } from './records.ts'

export const KINDS: Kinds = {
  ...PROCESS_KINDS,
  ...HOST_KINDS,
  ...NETWORK_KINDS,
  ...PROMOTION_KINDS,
  ...RECORD_KINDS,
}

/** The kinds that this machine can carry out. */
export const POSSIBLE = Object.keys(KINDS).filter((name) => KINDS[name]?.impossible === undefined)
