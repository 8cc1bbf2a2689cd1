/** All checks of `chancery doctor`, in the order of the report. */

import type { Check } from './check.ts'
import { CHALLENGES } from './checks/challenges.ts'
import { CONFIGURATION } from './checks/configuration.ts'
import { CREDENTIALS } from './checks/credentials.ts'
import { CRL } from './checks/crl.ts'
import { DATABASE } from './checks/database.ts'
import { DISK } from './checks/disk.ts'
import { FILES } from './checks/files.ts'
import { AUDIT, OPERATION } from './checks/operation.ts'
import { PROXY } from './checks/proxy.ts'
import { PROXY_CLIENT } from './checks/proxy-client.ts'
import { RESOLVERS } from './checks/resolvers.ts'
import { CLOCK, SERVICE } from './checks/service.ts'
import { SIGNER } from './checks/signer.ts'
import { SIGNER_NAMES } from './checks/signer-names.ts'
import { SIGNER_POLICY } from './checks/signer-policy.ts'
import { TLS } from './checks/tls.ts'
import { MAIL, UPSTREAM } from './checks/upstream.ts'

export const CHECKS: readonly Check[] = [
  ...CONFIGURATION,
  ...FILES,
  ...SERVICE,
  ...OPERATION,
  ...DATABASE,
  ...AUDIT,
  ...SIGNER,
  ...SIGNER_POLICY,
  ...SIGNER_NAMES,
  ...CLOCK,
  ...PROXY,
  ...PROXY_CLIENT,
  ...TLS,
  ...CRL,
  ...RESOLVERS,
  ...CHALLENGES,
  ...UPSTREAM,
  ...DISK,
  ...CREDENTIALS,
  ...MAIL,
]
