/** From what a file of answers says to all answers: defaults filled in, and everything that is wrong named at once. */

import { type Answers, type Key, NOT_ASKED, readAnswer } from './answers.ts'
import type { Facts } from './facts.ts'
import type { Question } from './question.ts'
import { QUESTIONS } from './questions.ts'

/** As a file or an earlier run has them; secrets may be left out. */
export type Given = Readonly<Partial<Record<Key, unknown>>>

/** @returns the answers with this one, or what is wrong with it */
export function withAnswer(
  answers: Answers,
  question: Question,
  given: unknown,
  facts: Facts,
): { answers: Answers } | { wrong: string } {
  const read = readAnswer(question.key, given)
  if ('wrong' in read) return read
  const next = { ...answers, [question.key]: read.value }
  const wrong = question.objection?.(next, facts)
  return wrong === undefined ? { answers: next } : { wrong }
}

/** @returns all answers, or a sentence for each key that is missing or wrong */
export function resolveAnswers(given: Given, facts: Facts): { answers: Answers } | { errors: string[] } {
  const errors: string[] = []
  let answers: Answers = { ...NOT_ASKED }
  for (const question of QUESTIONS) {
    // Later questions look at earlier answers: without a URL there is nothing to go on from.
    if (errors.length > 0 && answers.url === '') break
    if (question.when && !question.when(answers, facts)) continue
    const value = given[question.key] ?? question.usual?.(answers, facts)
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
  const lines = QUESTIONS.flatMap((question) => {
    const { key, text, isSecret } = question
    const isAsked = !question.when || question.when(answers, facts)
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

/** As it is typed. */
export const answerText = (value: unknown): string =>
  value === true ? 'yes' : value === false ? 'no' : Array.isArray(value) ? value.join(' ') : String(value ?? '')
