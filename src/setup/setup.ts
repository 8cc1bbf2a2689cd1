/** `chancery setup`: asks, shows what it will do, does it after one confirmation. */

import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { Answers } from './answers.ts'
import { type Applying, applySteps, type Results } from './apply.ts'
import { askAll, choose } from './ask.ts'
import { closingLines, waitingLines } from './closing.ts'
import { type Facts, PLACES } from './facts.ts'
import { readGivenCertificates } from './given-certificates.ts'
import { writeFile } from './host.ts'
import { makePlan } from './plan.ts'
import { readAnswersFile } from './read-answers.ts'
import { readFacts } from './read-facts.ts'
import { type Given, renderAnswers, resolveAnswers } from './resolve.ts'
import { differenceOf, fileLines, inspectPlan, type PlannedStep, planLines } from './show-plan.ts'
import type { FileWork } from './step.ts'
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
        writeFileSync(file, renderAnswers(answers, facts, formerAnswers()), { mode: 0o600, flag: 'wx' })
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

/** Of an earlier run. */
const formerAnswers = (): Given => (existsSync(PLACES.answers) ? readAnswersFile(PLACES.answers) : {})

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
    say(`Nothing was changed. Your answers are in ${PLACES.keptAnswers}, without secrets:`)
    say(`chancery setup --answers ${PLACES.keptAnswers} goes on from there.`)
    return 1
  }
  say()
  const mayReplace = (file: FileWork) => (terminal ? askToReplace(terminal, file) : decided(options, file))
  const begin = (text: string) => void process.stdout.write(text)
  const hadSecrets = existsSync(PLACES.secrets)
  const keepSecret = (lines: string) => appendFileSync(PLACES.secrets, `${lines}\n`, { mode: 0o600, flush: true })
  const applying: Applying = { answers, facts, say, begin, mayReplace, keepSecret }
  // Before the rest, so that a run after a failure asks for nothing again.
  keepAnswers(PLACES.answers, answers, facts)
  const results: Results = {}
  await applySteps(steps, applying, results).catch((error) => {
    if (existsSync(PLACES.secrets)) say(`\nPasswords and keys so far are in ${PLACES.secrets}.`)
    throw error
  })
  say()
  if (plan.endsWithRequest) {
    for (const line of waitingLines()) say(line)
    return 0
  }
  // Where somebody reads along, what is shown is kept nowhere, unless a run that failed has begun the file.
  const isShown = terminal !== undefined && !hadSecrets
  const secrets = isShown || !existsSync(PLACES.secrets) ? '' : readFileSync(PLACES.secrets, 'utf8')
  const root = readFileSync(PLACES.root, 'utf8')
  for (const line of closingLines({ answers, facts, results, root, secrets })) say(line)
  if (isShown) rmSync(PLACES.secrets, { force: true })
  return 0
}

const keepAnswers = (path: string, answers: Answers, facts: Facts) =>
  writeFile({ path, text: renderAnswers(answers, facts, formerAnswers()), mode: 0o600, owner: 'root' })

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
  const question = `${file.path} is there and differs. Keep it, or replace it (a copy is kept)?`
  return (await choose(terminal, question, ['keep', 'replace'])) === 'replace'
}

async function decided({ replace }: SetupOptions, file: FileWork): Promise<boolean> {
  if (!replace)
    console.log(`\n    ${file.path} is there and differs; it is kept (--replace replaces it):\n${differenceOf(file)}`)
  return replace
}
