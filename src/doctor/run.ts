/** Runs checks: a few at a time, each within its time. A check that fails says so, and stops no other. */

import { within } from '../shared/lib/time-limit.ts'
import { areaOf, type Check } from './check.ts'
import type { Sources } from './sources.ts'
import { type Area, CannotTell, messageOf, unknown, type Verdict } from './verdict.ts'

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
  const late = [unknown(`cannot tell, because the check did not end within ${limitMs / 1000} s`)]
  const verdicts = await within(verdictsOf(check, sources), limitMs, late)
  return verdicts.map((verdict) => ({ id: check.id, area: areaOf(check), title: check.title, ...verdict }))
}

async function verdictsOf(check: Check, sources: Sources): Promise<readonly Verdict[]> {
  try {
    const found = await check.look(sources)
    return found === undefined ? [] : 'result' in found ? [found] : found
  } catch (error) {
    const { mend, who } = error instanceof CannotTell ? error : {}
    return [{ ...unknown(`cannot tell, because ${messageOf(error)}`, mend), who }]
  }
}
