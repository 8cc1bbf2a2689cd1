/** Does the steps one after the other, and says of each whether it was done already. */

import { existsSync, statSync } from 'node:fs'
import { PATHS, SERVICE, SIGNER } from '../installation/places.ts'
import { startOf } from '../shared/lib/processes.ts'
import type { Facts } from './facts.ts'
import { act, backUp, hasProgram, isDone, lastLines, mustRun, run } from './host.ts'
import type { FileWork, Step, Work } from './plan/step.ts'
import type { Answers } from './questions.ts'
import {
  type Credential,
  hasCredential,
  makeAdministrator,
  makeCredential,
  requireAnswered,
  tryCertificate,
  waitUntilReady,
} from './service.ts'
import { wrapped } from './terminal.ts'

export interface Applying {
  answers: Answers
  facts: Facts
  say(line: string): void
  /** Says a text without an end of the line. */
  begin(text: string): void
  /** Decides whether this file takes the place of one that differs. */
  mayReplace(file: FileWork): Promise<boolean>
  /** Writes a secret to its file at once: the run may end before it is shown. */
  keepSecret(lines: string): void
}

/** The results that the operator sees only once. */
export interface Results {
  password?: string
  credential?: Credential
  /** Sentences about the test certificate. */
  test?: readonly string[]
  /** The time when both programs last ran what is written, and the service was ready. */
  readyAt?: Date
}

/** A title leaves room for the word behind it. */
const TITLE_WIDTH = 60

type Said = 'done already' | 'changed' | 'kept as it is' | 'checked'

/**
 * @param results is filled in at once: what was made before a failure is shown, too
 * @throws Error that names the step; another run continues there
 */
export async function applySteps(steps: readonly Step[], applying: Applying, results: Results): Promise<void> {
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
  if ((facts.files[work.at.path] ?? work.text) !== work.text) {
    if (!(await mayReplace(work))) return 'kept as it is'
    say(`\n    the file of before is now ${backUp(work.at.path)}`)
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

/** The files that each program reads at its start. */
const READ = {
  [SIGNER]: [
    ...[PATHS.signerConfig, PATHS.signerEnv, PATHS.secret, PATHS.signerUnit, PATHS.tokenDropIn],
    ...[PATHS.issuer, PATHS.chain, PATHS.issuerKey, PATHS.issuerPassphrase],
    ...[PATHS.tokenPin, PATHS.softhsmConf, PATHS.softhsmPin],
  ],
  [SERVICE]: [PATHS.config, PATHS.serviceEnv, PATHS.secret, PATHS.eabKey, PATHS.auditKey, PATHS.serviceUnit],
} as const

/**
 * A run that was interrupted has changed files and started nothing.
 * @returns why the unit has to be started; undefined where it runs with the newest of its files
 */
async function outdated(unit: keyof typeof READ): Promise<string | undefined> {
  const { stdout } = await run({ words: ['systemctl', 'show', '--property=MainPID', unit], as: 'root' })
  const pid = Number(/^MainPID=(\d+)$/m.exec(stdout)?.[1] ?? 0)
  if (pid === 0 || !existsSync(`/proc/${pid}`)) return `${unit} does not run`
  const startedAt = startOf(pid)
  // A file that came by a rename keeps the time of its bytes, so the time of the name counts.
  const newer = READ[unit].find((file) => existsSync(file) && statSync(file).ctime > startedAt)
  return newer && `${unit} runs since ${startedAt.toISOString()}, and ${newer} was changed later`
}

/** Looks at both programs at the end. "Ready" comes from here, not from the steps before. */
async function lookAgain(answers: Answers, begin: Applying['begin']): Promise<void> {
  for (const unit of [SIGNER, SERVICE] as const) {
    const why = await outdated(unit)
    if (why !== undefined) throw new Error(`${why}; run chancery setup again`)
  }
  await waitUntilReady(answers, begin).catch(withLog)
  await requireAnswered(answers)
}

/** The log of a unit says why it does not come up. */
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
