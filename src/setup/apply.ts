/** Does the steps one after the other, and says of each whether it was done already. */

import { type Credential, hasCredential, makeAdministrator, makeCredential } from './administration.ts'
import type { Answers } from './answers.ts'
import { hasProgram, lastLines, mustRun, run } from './command.ts'
import { type Facts, SERVICE, SIGNER } from './facts.ts'
import { act, backUp, isDone } from './host.ts'
import { outdated } from './running.ts'
import type { PlannedStep } from './show-plan.ts'
import type { FileWork, Work } from './step.ts'
import { wrapped } from './terminal.ts'
import { requireAnswered, tryCertificate, waitUntilReady } from './try-service.ts'

export interface Applying {
  answers: Answers
  facts: Facts
  say(line: string): void
  /** Without an end of the line. */
  begin(text: string): void
  /** Whether to put this file in the place of one that differs. */
  mayReplace(file: FileWork): Promise<boolean>
  /** Writes a secret to its file at once: the run may end before it is shown. */
  keepSecret(lines: string): void
}

/** What the operator has to be told once. */
export interface Results {
  password?: string
  credential?: Credential
  /** Sentences about the test certificate. */
  test?: readonly string[]
  /** When both programs were last seen to run what is written, and the service to be ready. */
  readyAt?: Date
}

/** Leaves room for what is said behind it. */
const TITLE_WIDTH = 60

type Said = 'done already' | 'changed' | 'kept as it is' | 'checked'

/**
 * @param results filled in as it comes, since what was made before a failure is told, too
 * @throws Error that names the step; another run goes on from there
 */
export async function applySteps(steps: readonly PlannedStep[], applying: Applying, results: Results): Promise<void> {
  for (const { title, work } of steps) {
    applying.begin(`${wrapped(title, '  ', TITLE_WIDTH)} … `)
    try {
      applying.say(await applyOne(work, applying, results))
    } catch (error) {
      applying.say('failed')
      throw new Error(`${title}: ${(error as Error).message}`, { cause: error })
    }
  }
}

async function applyOne(work: Work, applying: Applying, results: Results): Promise<Said> {
  const { answers, facts, begin } = applying
  switch (work.kind) {
    case 'restart':
      return restart(work.unit)
    case 'wait':
      await waitUntilReady(answers, begin).catch(withLog)
      return 'checked'
    case 'administrator': {
      const password = await makeAdministrator(facts, work.email)
      if (password === undefined) return 'done already'
      applying.keepSecret(`administrator: admin\npassword: ${password}`)
      results.password = password
      return 'changed'
    }
    case 'credential': {
      if (await hasCredential(facts, work.kid)) return 'done already'
      const allow = work.allow.flatMap((one) => ['--allow', one])
      const made = await makeCredential(facts, work.kid, allow)
      applying.keepSecret(`kid: ${made.kid}\nhmac_key: ${made.hmacKey.toString('base64url')}`)
      results.credential = made
      return 'changed'
    }
    case 'test-certificate':
      results.test = await tryCertificate(answers, facts)
      return 'checked'
    case 'last-look':
      await lookAgain(answers, begin)
      results.readyAt = new Date()
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

async function restart(unit: typeof SERVICE | typeof SIGNER): Promise<Said> {
  await mustRun({ words: ['systemctl', 'daemon-reload'], as: 'root' })
  if ((await outdated(unit)) === undefined) return 'done already'
  await mustRun({ words: ['systemctl', 'restart', unit], as: 'root' }).catch(withLog)
  return 'changed'
}

/** Looks at what runs at the end. "Ready" comes from here, not from the steps before. */
async function lookAgain(answers: Answers, begin: Applying['begin']): Promise<void> {
  for (const unit of [SIGNER, SERVICE] as const) {
    const why = await outdated(unit)
    if (why !== undefined) throw new Error(`${why}; run chancery setup again`)
  }
  await waitUntilReady(answers, begin).catch(withLog)
  await requireAnswered(answers)
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
