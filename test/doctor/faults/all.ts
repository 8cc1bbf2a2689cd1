/** All faults that are planted, in the order of the doctor's areas. */

import { DATABASE } from './database.ts'
import type { Fault } from './fault.ts'
import { CLOCK, CONFIGURATION, FILES } from './host.ts'
import { NETWORK } from './network.ts'
import { CRL, PROXY, TLS } from './proxy.ts'
import { OTHERS, SERVICE } from './service.ts'
import { SIGNER } from './signer.ts'

export const FAULTS: readonly Fault[] = [
  ...FILES,
  ...CONFIGURATION,
  ...SERVICE,
  ...DATABASE,
  ...SIGNER,
  ...CLOCK,
  ...PROXY,
  ...TLS,
  ...CRL,
  ...NETWORK,
  ...OTHERS,
]
