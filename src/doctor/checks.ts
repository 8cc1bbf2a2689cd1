/** All checks of `chancery doctor`, in the order of the report. */

import type { Check } from './check.ts'
import { CLOCK } from './checks/clock.ts'
import { CONFIGURATION } from './checks/configuration.ts'
import { CREDENTIALS } from './checks/credentials.ts'
import { CRL } from './checks/crl.ts'
import { DATABASE } from './checks/database.ts'
import { DISK } from './checks/disk.ts'
import { FILES } from './checks/files.ts'
import { MAIL } from './checks/mail.ts'
import { NETWORK } from './checks/network.ts'
import { PROXY } from './checks/proxy.ts'
import { SERVICE } from './checks/service.ts'
import { SIGNER } from './checks/signer.ts'
import { TLS } from './checks/tls.ts'

export const CHECKS: readonly Check[] = [
  ...CONFIGURATION,
  ...FILES,
  ...SERVICE,
  ...DATABASE,
  ...SIGNER,
  ...CLOCK,
  ...PROXY,
  ...TLS,
  ...CRL,
  ...NETWORK,
  ...DISK,
  ...CREDENTIALS,
  ...MAIL,
]
