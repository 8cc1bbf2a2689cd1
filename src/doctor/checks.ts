/** All checks of `chancery doctor`, in the order of the report, and their table in docs/operations/doctor.md. */

import { CONFIGURATION } from './checks/configuration.ts'
import { CREDENTIALS } from './checks/credentials.ts'
import { CRL } from './checks/crl.ts'
import { DATABASE } from './checks/database.ts'
import { DISK } from './checks/disk.ts'
import { FILES } from './checks/files.ts'
import { AUDIT, OPERATION } from './checks/operation.ts'
import { PROXY } from './checks/proxy.ts'
import { PROXY_CLIENT } from './checks/proxy-client.ts'
import { CLOCK, SERVICE } from './checks/service.ts'
import { SIGNER } from './checks/signer.ts'
import { SIGNER_NAMES, SIGNER_POLICY } from './checks/signer-policy.ts'
import { TLS } from './checks/tls.ts'
import { MAIL, UPSTREAM } from './checks/upstream.ts'
import { CHALLENGES, RESOLVERS } from './checks/validation.ts'
import { areaOf, type Check } from './sources.ts'
import { AREA_NAMES, AREAS } from './verdict.ts'

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

const [BEGIN, END] = ['<!-- checks -->\n', '<!-- end of checks -->']

/** @returns the document with the table as it is now */
export function withChecks(document: string): string {
  const [before = '', rest = ''] = document.split(BEGIN)
  const after = rest.slice(rest.indexOf(END))
  return `${before}${BEGIN}\n${tableOfChecks()}\n\n${after}`
}

function tableOfChecks(): string {
  const rows = AREA_NAMES.flatMap((area) => [
    `| **${AREAS[area]}** (\`${area}\`) | |`,
    ...CHECKS.filter((check) => areaOf(check) === area).map(({ id, title }) => `| \`${id}\` | ${title} |`),
  ])
  return ['| Check | What is right |', '|---|---|', ...rows].join('\n')
}
