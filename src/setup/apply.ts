/** Does the steps one after the other, and says of each whether it was done already. */

import { type Credential, hasCredential, makeAdministrator, makeCredential } from './administration.ts'
import type { Answers } from './answers.ts'
import { hasProgram, lastLines, mustRun, run } from './command.ts'
import type { Facts } from './facts.ts'
import { act, backUp, isDone } from './host.ts'
import type { PlannedStep } from './show-plan.ts'
import type { FileWork, Work } from './step.ts'
import { wrapped } from './terminal.ts'
import { tryCertificate, waitUntilReady } from './try-service.ts'

export interface Applying {
  answers: Answers
  facts: Facts
  say(line: string): void
  /** Without an end of the line. */
  begin(text: string): void
  /** Whether to put this file in the place of one that differs. */
  mayReplace(file: FileWork): Promise<boolean>
}

/** What the operator has to be told once. */
export interface Results {
  password?: string
  credential?: Credential
  /** Sentences about the test certificate. */
  test?: readonly string[]
}

/** Leaves room for what is said behind it. */
const TITLE_WIDTH = 60

type Said = 'done already' | 'changed' | 'kept as it is' | 'checked'

/**
 * @param results filled in as it comes, since what was made before a failure is told, too
 * @throws Error that names the step; another run goes on from there
 */
export async function applySteps(steps: readonly PlannedStep[], applying: Applying, results: Results): Promise<void> {
  let hasChanged = false
  for (const { title, work } of steps) {
    applying.begin(`${wrapped(title, '  ', TITLE_WIDTH)} … `)
    try {
      const said = await applyOne(work, applying, results, hasChanged)
      hasChanged ||= said === 'changed' && ['file', 'copy', 'random'].includes(work.kind)
      applying.say(said)
    } catch (error) {
      applying.say('failed')
      throw new Error(`${title}: ${(error as Error).message}`, { cause: error })
    }
  }
}

async function applyOne(work: Work, applying: Applying, results: Results, hasChanged: boolean): Promise<Said> {
  const { answers, facts, begin } = applying
  switch (work.kind) {
    case 'restart':
      return restart(work.unit, hasChanged)
    case 'wait':
      await waitUntilReady(answers, begin).catch(withLog)
      return 'checked'
    case 'administrator': {
      const password = await makeAdministrator(facts, work.email)
      if (password === undefined) return 'done already'
      results.password = password
      return 'changed'
    }
    case 'credential': {
      if (await hasCredential(facts, work.kid)) return 'done already'
      const allow = work.allow.flatMap((one) => ['--allow', one])
      results.credential = await makeCredential(facts, work.kid, allow)
      return 'changed'
    }
    case 'test-certificate':
      results.test = await tryCertificate(answers, facts)
      return 'checked'
    case 'file':
      return applyFile(work, applying)
    default: {
      if (await isDone(work)) return 'done already'
      await act(work)
      return work.kind === 'run' && work.unless === undefined ? 'checked' : 'changed'
    }
  }
}

async function applyFile(work: FileWork, { facts, say, mayReplace }: Applying): Promise<Said> {
  if (await isDone(work)) return 'done already'
  if ((facts.files[work.path] ?? work.text) !== work.text) {
    if (!(await mayReplace(work))) return 'kept as it is'
    say(`\n    the file of before is now ${backUp(work.path)}`)
  }
  await act(work)
  return 'changed'
}

async function restart(unit: string, hasChanged: boolean): Promise<Said> {
  await mustRun({ words: ['systemctl', 'daemon-reload'], as: 'root' })
  const { code } = await run({ words: ['systemctl', 'is-active', '--quiet', unit], as: 'root' })
  if (code === 0 && !hasChanged) return 'done already'
  await mustRun({ words: ['systemctl', 'restart', unit], as: 'root' }).catch(withLog)
  return 'changed'
}

/** Why a unit does not come up is in its log. */
async function withLog(error: Error): Promise<never> {
  const log = hasProgram('journalctl')
    ? await run({
        words: ['journalctl', '--no-pager', '-n', '15', '-o', 'cat', '-u', 'chancery', '-u', 'chancery-signer'],
        as: 'root',
      })
    : undefined
  const lines = log ? lastLines(log.output) : 'the logs of the units chancery and chancery-signer say why'
  throw new Error(`${error.message}\n${lines}`.trimEnd(), { cause: error })
}
