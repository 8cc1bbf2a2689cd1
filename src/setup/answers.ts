/**
 * The answers of a set-up. A file of answers is read at once, with everything that is wrong in it; on a terminal one
 * question follows the other, and a wrong answer is explained and asked again.
 */

import { readFileSync, statSync } from 'node:fs'
import { CLOSED, tooOpen } from '../installation/places.ts'
import { readDocument } from '../shared/config-file/document.ts'
import { nearest } from '../shared/config-file/suggest.ts'
import { withoutLineEnds } from '../shared/lib/secret-box.ts'
import type { Facts } from './facts.ts'
import { type Answers, type AnyQuestion, type Key, NOT_ASKED, QUESTIONS, usualAnswer } from './questions.ts'
import { type Terminal, wrapped } from './terminal.ts'

/** The answers of a file or of an earlier run, not read yet; secrets may be left out. */
export type Given = Readonly<Partial<Record<Key, unknown>>>

const KEYS = QUESTIONS.map(({ key }) => key)
const SECRETS = QUESTIONS.filter(({ isSecret }) => isSecret).map(({ key }) => key)

/** @throws Error with a sentence for each thing that is wrong */
export function readAnswersFile(file: string): Given {
  const { value, problems } = readDocument(textOf(file), 'yaml')
  const errors = problems.map(({ position, message }) => `line ${position.line}: ${message}`)
  const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (errors.length === 0 && !isMapping) errors.push('it holds no keys; write them as key: value')
  const given: Partial<Record<Key, unknown>> = {}
  for (const [name, answer] of Object.entries(isMapping ? value : {})) {
    const secret = SECRETS.find((key) => name === `${key}_file`)
    const key = KEYS.find((one) => name === one)
    try {
      if (secret) given[secret] = readSecretFile(String(answer))
      else if (key) given[key] = answer
      else errors.push(unknownKey(name))
    } catch (error) {
      errors.push(`${name}: ${(error as Error).message}`)
    }
  }
  if (errors.length > 0) throw new Error(`${file} is not usable:\n${errors.join('\n')}`)
  return given
}

function unknownKey(name: string): string {
  const near = nearest(name, KEYS)
  return `${name}: is no key of a file of answers${near === undefined ? '' : `; did you mean ${near}?`}`
}

function readSecretFile(file: string): string {
  const { mode } = statSync(file, { throwIfNoEntry: false }) ?? { mode: 0 }
  if (tooOpen(CLOSED, mode)) throw new Error(`${file} lets others read it; chmod 600`)
  return withoutLineEnds(textOf(file))
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}

/** @returns the answers with this one, or what is wrong with it */
function withAnswer(
  answers: Answers,
  question: AnyQuestion,
  given: unknown,
  facts: Facts,
): { answers: Answers } | { wrong: string } {
  const read = question.takes.schema.safeParse(given)
  if (!read.success) return { wrong: read.error.issues[0]?.message ?? 'is not usable' }
  const next: Answers = { ...answers, [question.key]: read.data }
  const wrong = question.objection?.(next, facts)
  return wrong === undefined ? { answers: next } : { wrong }
}

/** @returns all answers, or a sentence for each key that is missing or wrong */
export function resolveAnswers(given: Given, facts: Facts): { answers: Answers } | { errors: string[] } {
  const errors: string[] = []
  let answers = NOT_ASKED
  for (const question of QUESTIONS) {
    // Later questions look at earlier answers, and most of them at the URL.
    if (errors.length > 0 && answers.url === '') break
    if (question.when && !question.when(answers, facts)) continue
    const value = given[question.key] ?? usualAnswer(question, answers, facts)
    if (value === undefined) {
      errors.push(`${question.key}: is missing (${question.text})`)
      continue
    }
    const next = withAnswer(answers, question, value, facts)
    if ('wrong' in next) errors.push(`${question.key}: ${next.wrong}`)
    else answers = next.answers
  }
  return errors.length > 0 ? { errors } : { answers }
}

/**
 * A file of answers, with the question of each. Secrets are left out: where one is needed, it is asked for again.
 * @param former answers of an earlier run, which are kept where nothing was asked
 */
export function renderAnswers(answers: Answers, facts: Facts, former: Given): string {
  const lines = QUESTIONS.flatMap(({ key, text, isSecret, when }) => {
    const isAsked = !when || when(answers, facts)
    const answer = isAsked ? answers[key] : former[key]
    return answer === undefined || isSecret ? [] : [`# ${text}`, `${key}: ${yaml(answer)}`]
  })
  return [
    '# Answers of chancery setup; chancery setup --answers FILE repeats it.',
    '# A secret is left out. It may be named as KEY_file, a file of mode 600.',
    ...lines,
    '',
  ].join('\n')
}

/** JSON is YAML. */
const yaml = (value: unknown): string =>
  value === true || value === false
    ? answerText(value)
    : Array.isArray(value)
      ? `[${value.map(yaml).join(', ')}]`
      : JSON.stringify(value)

/** The text that an operator would type. */
const answerText = (value: unknown): string =>
  value === true ? 'yes' : value === false ? 'no' : Array.isArray(value) ? value.join(' ') : String(value ?? '')

const BACK = '<'

/**
 * Asks the questions on a terminal, one after the other.
 *
 * @param known answers of a file or of an earlier run
 * @param again whether known answers are asked for, too, as defaults
 */
export async function askAll(terminal: Terminal, look: () => Facts, known: Given, again: boolean): Promise<Answers> {
  const facts = look()
  let answers = NOT_ASKED
  let typed: Given = {}
  const asked: { at: number; before: Answers }[] = []
  for (let at = 0; at < QUESTIONS.length; at++) {
    const question = QUESTIONS[at]!
    const { key, text, when, mayFollow } = question
    if (when && !when(answers, facts)) continue
    const former = typed[key] ?? known[key]
    const isOpen = mayFollow && former === ''
    if (former !== undefined && !again && !isOpen && !Object.hasOwn(typed, key)) {
      const kept = withAnswer(answers, question, former, facts)
      if ('answers' in kept) {
        answers = kept.answers
        continue
      }
      terminal.say(`\n${wrapped(`${text}: the answer ${shown(question, former)} ${kept.wrong}.`)}`)
    }
    const next = await askOne(terminal, question, answers, look, former)
    if (next) {
      asked.push({ at, before: answers })
      answers = next
      typed = { ...typed, [key]: next[key] }
      continue
    }
    const last = asked.pop() ?? { at, before: answers }
    answers = last.before
    at = last.at - 1
  }
  return answers
}

/** @returns undefined when the operator goes back to the question before */
async function askOne(terminal: Terminal, question: AnyQuestion, answers: Answers, look: () => Facts, former: unknown) {
  const usual = former ?? usualAnswer(question, answers, look())
  terminal.say()
  terminal.say(question.text)
  terminal.say(wrapped(question.about, '  '))
  for (const [word, meaning] of Object.entries(question.takes.choices ?? {}))
    terminal.say(`  ${word.padEnd(9)} ${meaning}`)
  if (question.isSecret && former !== undefined) terminal.say('  Enter keeps the one of before.')
  for (;;) {
    const typed = question.isSecret ? await terminal.askSecret('> ') : (await terminal.ask(prompt(usual))).trim()
    if (typed === BACK) return undefined
    const given = typed === '' && (!question.isSecret || former !== undefined) ? usual : typed
    if (given === undefined) {
      terminal.say('  An answer is needed.')
      continue
    }
    // A dash empties an answer that has a default.
    const isEmptied = given === '-' && !question.isSecret
    // The facts are read again: what was missing may have been installed meanwhile.
    const next = withAnswer(answers, question, isEmptied ? '' : given, look())
    if ('answers' in next && (typed === '' || !question.isSecret || (await isTypedAgain(terminal, typed))))
      return next.answers
    if ('answers' in next) terminal.say('  The two differ.')
    else terminal.say(wrapped(`"${shown(question, given)}" ${next.wrong}.`, '  '))
  }
}

const shown = ({ isSecret }: AnyQuestion, given: unknown) => (isSecret ? '…' : answerText(given))

/** A mistyped secret would be noticed much later. */
const isTypedAgain = async (terminal: Terminal, typed: string) => typed === (await terminal.askSecret('once more> '))

const prompt = (usual: unknown) => {
  const said = answerText(usual)
  return said === '' ? '> ' : `[${said}] > `
}

/** @returns the word of the answer */
export async function choose(
  terminal: Terminal,
  question: string,
  words: readonly [string, ...string[]],
): Promise<string> {
  terminal.say()
  terminal.say(wrapped(question))
  for (;;) {
    const typed = (await terminal.ask(`${words.join(', ')} [${words[0]}] > `)).trim().toLowerCase()
    const found = typed === '' ? words[0] : words.find((word) => word.startsWith(typed))
    if (found) return found
    terminal.say(`  Please type ${words.join(' or ')}.`)
  }
}
