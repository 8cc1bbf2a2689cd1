/** `chancery setup`: asks, shows what it will do, does it after one confirmation. */

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { CLOSED, PATHS, PLACES, type Place } from '../installation/places.ts'
import { plural } from '../shared/lib/plural.ts'
import { askAll, choose, type Given, readAnswersFile, renderAnswers, resolveAnswers } from './answers.ts'
import { type Applying, applySteps, type Results } from './apply.ts'
import { closingLines, waitingLines } from './closing.ts'
import type { Facts } from './facts.ts'
import { readGivenCertificates } from './given-certificates.ts'
import { isDone, readFacts, writeFile } from './host.ts'
import { makePlan } from './plan/plan.ts'
import type { FileWork, Plan, Step } from './plan/step.ts'
import type { Answers } from './questions.ts'
import { openTerminal, type Terminal, wrapped } from './terminal.ts'

interface SetupOptions {
  answers: string | undefined
  unattended: boolean
  'dry-run': boolean
  'write-answers': string | undefined
  replace: boolean
  'accept-audit-log': boolean
  'do-not-start': boolean
}

const TOKEN_BYTES = 32

/** @returns the exit code. @throws Error in plain sentences */
export async function setUp(options: SetupOptions): Promise<number> {
  const isWriting = !options['dry-run'] && options['write-answers'] === undefined
  if (isWriting && process.getuid?.() !== 0)
    throw new Error('chancery setup makes users and files below /etc: run it as root')
  const isAttended = !options.unattended
  if (isAttended && process.stdin.isTTY !== true)
    throw new Error('there is no terminal to ask questions on; use --unattended with --answers FILE')
  const terminal = isAttended ? openTerminal() : undefined
  try {
    const file = options['write-answers']
    for (let answers = await findAnswers(options, terminal); ; ) {
      const facts = readFacts()
      if (file !== undefined) {
        writeFileSync(file, renderAnswers(answers, facts, formerAnswers()), { mode: CLOSED, flag: 'wx' })
        console.log(`The answers are in ${file}, without secrets.`)
        return 0
      }
      const code = await planAndApply(options, answers, facts, terminal)
      if (code !== 'change' || !terminal) return Number(code)
      answers = await askAll(terminal, readFacts, answers, true)
    }
  } finally {
    terminal?.close()
  }
}

/** The answers of an earlier run. */
const formerAnswers = (): Given => (existsSync(PATHS.answers) ? readAnswersFile(PATHS.answers) : {})

async function findAnswers({ answers: file }: SetupOptions, terminal: Terminal | undefined): Promise<Answers> {
  const former = formerAnswers()
  const given: Given = file === undefined ? former : { ...former, ...readAnswersFile(file) }
  if (!terminal) {
    const resolved = resolveAnswers(given, readFacts())
    if ('answers' in resolved) return resolved.answers
    throw new Error(`answers are missing or wrong:\n${resolved.errors.join('\n')}`)
  }
  terminal.say(
    wrapped(
      'This sets up Chancery on this host: signer, database, service. Nothing is changed before you have seen the plan. Enter takes the answer in brackets, < goes back to the question before; Ctrl-C ends.',
    ),
  )
  const again =
    Object.keys(former).length > 0 &&
    (await choose(terminal, 'There are answers of an earlier run. Go through them again?', ['no', 'yes'])) === 'yes'
  return askAll(terminal, readFacts, given, again)
}

async function planAndApply(
  options: SetupOptions,
  answers: Answers,
  facts: Facts,
  terminal: Terminal | undefined,
): Promise<number | 'change'> {
  const given = await readGivenCertificates(answers, facts)
  const fresh = { token: randomBytes(TOKEN_BYTES).toString('base64url') }
  const start = !options['do-not-start']
  const plan = makePlan({ answers, facts, given, fresh, start, acceptsAuditLog: options['accept-audit-log'] })
  const steps = await inspectPlan(plan, facts.files)
  const say = (text = '') => console.log(text)
  say('\nThe plan:\n')
  for (const line of planLines(steps)) say(line)
  if (start && !facts.canStart && !plan.endsWithRequest)
    say('\nThere is no systemd here: you start both programs yourself.')
  if (options['dry-run']) {
    for (const line of ['', ...fileLines(steps)]) say(line)
    say('Nothing was changed (--dry-run).')
    return 0
  }
  const word = terminal ? await confirm(terminal, steps) : 'yes'
  if (word === 'change') return word
  if (word === 'no') {
    keepAnswers(PLACES.keptAnswers, answers, facts)
    say(`Nothing was changed. Your answers are in ${PATHS.keptAnswers}, without secrets:`)
    say(`chancery setup --answers ${PATHS.keptAnswers} goes on from there.`)
    return 1
  }
  say()
  const mayReplace = (file: FileWork) => (terminal ? askToReplace(terminal, file) : decided(options, file))
  const begin = (text: string) => void process.stdout.write(text)
  const hadSecrets = existsSync(PATHS.secrets)
  const keepSecret = (lines: string) => appendFileSync(PATHS.secrets, `${lines}\n`, { mode: CLOSED, flush: true })
  const applying: Applying = { answers, facts, say, begin, mayReplace, keepSecret }
  // The answers are kept before the rest, so that a run after a failure asks for nothing again.
  keepAnswers(PLACES.answers, answers, facts)
  const results: Results = {}
  await applySteps(steps, applying, results).catch((error) => {
    if (existsSync(PATHS.secrets)) say(`\nPasswords and keys so far are in ${PATHS.secrets}.`)
    throw error
  })
  say()
  if (plan.endsWithRequest) {
    for (const line of waitingLines()) say(line)
    return 0
  }
  // Secrets are shown on a terminal and kept nowhere, unless a run that failed has begun the file.
  const isShown = terminal !== undefined && !hadSecrets
  const secrets = isShown || !existsSync(PATHS.secrets) ? '' : readFileSync(PATHS.secrets, 'utf8')
  const root = readFileSync(PATHS.root, 'utf8')
  for (const line of closingLines({ answers, facts, results, root, secrets })) say(line)
  if (isShown) rmSync(PATHS.secrets, { force: true })
  return 0
}

const keepAnswers = (at: Place, answers: Answers, facts: Facts) =>
  writeFile(at, renderAnswers(answers, facts, formerAnswers()))

/** The plan as an operator reads it: each step with what is left of it, and the files on request. */
type State = 'done already' | 'to do' | 'differs'

interface PlannedStep extends Step {
  state: State
}

/** @param files path → text of the files that are there */
async function inspectPlan({ steps }: Plan, files: Facts['files']): Promise<PlannedStep[]> {
  const planned: PlannedStep[] = []
  for (const step of steps) {
    const { work } = step
    const isOther = work.kind === 'file' && (files[work.at.path] ?? work.text) !== work.text
    planned.push({ ...step, state: (await isDone(work)) ? 'done already' : isOther ? 'differs' : 'to do' })
  }
  return planned
}

/** Steps that are done already are only counted, so that the others stand out. */
function planLines(steps: readonly PlannedStep[]): string[] {
  const left = steps.filter(({ state }) => state !== 'done already')
  const lines = left.map(({ title, state, work }, at) => {
    const file = work.kind === 'file' ? ` (${work.at.path})` : ''
    const mark = state === 'differs' ? ' – a file that differs is there' : ''
    return wrapped(`${title}${file}${mark}`, '      ').replace(/^ {6}/, `${String(at + 1).padStart(4)}  `)
  })
  const done = steps.length - left.length
  return [...lines, ...(done > 0 ? [`\n      ${plural(done, 'step')} more: done already`] : [])]
}

/** Texts of the files, without the secrets in them. */
const fileLines = (steps: readonly PlannedStep[]): string[] =>
  steps.flatMap(({ work, state }) =>
    work.kind === 'file' && state !== 'done already'
      ? [`── ${work.at.path}`, work.isSecret ? '(a secret)' : withoutSecrets(work.text), '']
      : [],
  )

/** The lines that would change in a file that is there. */
function differenceOf({ at: { path }, text, isSecret }: FileWork): string {
  if (isSecret) return '(a secret)'
  const words = ['-u', '--label', `${path} (is there)`, '--label', `${path} (setup)`, path, '-']
  const { stdout } = spawnSync('diff', words, { input: text, encoding: 'utf8' })
  return withoutSecrets(stdout)
}

const withoutSecrets = (text: string) => text.replaceAll(/(secret|password): ".*"/g, '$1: "…"')

async function confirm(terminal: Terminal, steps: readonly PlannedStep[]): Promise<string> {
  const question = 'Do this? "files" shows what is written, "change" goes through the questions again.'
  for (;;) {
    const word = await choose(terminal, question, ['yes', 'no', 'files', 'change'])
    if (word !== 'files') return word
    for (const line of fileLines(steps)) terminal.say(line)
  }
}

async function askToReplace(terminal: Terminal, file: FileWork): Promise<boolean> {
  terminal.say(differenceOf(file))
  const question = `${file.at.path} is there and differs. Keep it, or replace it (a copy is kept)?`
  return (await choose(terminal, question, ['keep', 'replace'])) === 'replace'
}

async function decided({ replace }: SetupOptions, file: FileWork): Promise<boolean> {
  if (!replace)
    console.log(
      `\n    ${file.at.path} is there and differs; it is kept (--replace replaces it):\n${differenceOf(file)}`,
    )
  return replace
}
