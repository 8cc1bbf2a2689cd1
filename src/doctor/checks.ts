/**
 * All checks of `chancery doctor`, in the order of the report, and their table in docs/operations/doctor.md. They run a
 * few at a time, each within its time, and a check that fails stops no other.
 */

import { messageOf } from '../shared/lib/errors.ts'
import { within } from '../shared/lib/time-limit.ts'
import { CONFIGURATION, FILES } from './checks/configuration.ts'
import { CREDENTIALS } from './checks/credentials.ts'
import { CRL } from './checks/crl.ts'
import { DATABASE } from './checks/database.ts'
import { DISK } from './checks/disk.ts'
import { AUDIT, OPERATION } from './checks/operation.ts'
import { PROXY } from './checks/proxy.ts'
import { PROXY_CLIENT } from './checks/proxy-client.ts'
import { CLOCK, SERVICE } from './checks/service.ts'
import { SIGNER } from './checks/signer.ts'
import { SIGNER_NAMES, SIGNER_POLICY } from './checks/signer-policy.ts'
import { TLS } from './checks/tls.ts'
import { MAIL, UPSTREAM } from './checks/upstream.ts'
import { CHALLENGES, RESOLVERS } from './checks/validation.ts'
import { areaOf, type Check, type Sources } from './sources.ts'
import { AREA_NAMES, AREAS, type Area, CannotTell, unknown, unknownBecause, type Verdict } from './verdict.ts'

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

export interface Finding extends Verdict {
  id: string
  area: Area
  title: string
}

export interface Progress {
  done: number
  of: number
  title: string
}

/** Some checks wait for other servers, and none needs the processor for long. */
const AT_ONCE = 8
const LIMIT_MS = 30_000

/** @returns the findings in the order of the checks */
export async function runChecks(
  checks: readonly Check[],
  sources: Sources,
  onProgress: (progress: Progress) => void,
  limitMs = LIMIT_MS,
): Promise<Finding[]> {
  const found: Finding[][] = []
  const waiting = [...checks.entries()]
  let done = 0
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, check] = next
      found[at] = await runCheck(check, sources, limitMs)
      done += 1
      onProgress({ done, of: checks.length, title: check.title })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return withoutConsequences(found.flat())
}

/** A program that does not answer is one finding. Other checks that needed it say that they did not look. */
function withoutConsequences(findings: readonly Finding[]): Finding[] {
  return findings.map((finding) => {
    const first = findings.find(({ result, who }) => result === 'failure' && who === finding.who)
    if (finding.who === undefined || first === undefined || first === finding) return finding
    const { mend: _, ...rest } = finding
    return { ...rest, ...unknown(`not looked at, because of ${first.id}`) }
  })
}

async function runCheck(check: Check, sources: Sources, limitMs: number): Promise<Finding[]> {
  const late = [unknownBecause(`the check did not end within ${limitMs / 1000} s`)]
  const verdicts = await within(verdictsOf(check, sources), limitMs, late)
  return verdicts.map((verdict) => ({ id: check.id, area: areaOf(check), title: check.title, ...verdict }))
}

async function verdictsOf(check: Check, sources: Sources): Promise<readonly Verdict[]> {
  try {
    const found = await check.look(sources)
    return found === undefined ? [] : 'result' in found ? [found] : found
  } catch (error) {
    const { mend, who } = error instanceof CannotTell ? error : {}
    return [{ ...unknownBecause(messageOf(error), mend), who }]
  }
}

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
