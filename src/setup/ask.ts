/** Asks the questions of the table on a terminal, one after the other; a wrong answer is explained and asked again. */

import { answerText, type Given, withAnswer } from './answers.ts'
import type { Facts } from './facts.ts'
import { type Answers, type AnyQuestion, NOT_ASKED, QUESTIONS, usualAnswer } from './questions.ts'
import { type Terminal, wrapped } from './terminal.ts'

const BACK = '<'

/**
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
