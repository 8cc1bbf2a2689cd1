/** From what a file of answers says to all answers: defaults filled in, and everything that is wrong named at once. */

import { type Answers, type Key, NOT_ASKED, readAnswer } from './answers.ts'
import type { Facts } from './facts.ts'
import { QUESTIONS, type Question } from './questions.ts'

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
 * A file of answers, with what each means.
 * Secrets are left out; where one is needed, it is asked for again or read from a file.
 */
export function renderAnswers(answers: Answers, facts: Facts): string {
  const asked = QUESTIONS.filter((one) => !one.when || one.when(answers, facts))
  const lines = asked.flatMap(({ key, text, isSecret }) => [
    `# ${text}`,
    isSecret
      ? `# ${key}_file: /root/${key.replaceAll('_', '-')}  # not kept here; a file of mode 600`
      : `${key}: ${yaml(answers[key])}`,
  ])
  return ['# Answers of chancery setup; chancery setup --answers THIS_FILE repeats it.', ...lines, ''].join('\n')
}

/** JSON is YAML. */
const yaml = (value: unknown) =>
  typeof value === 'boolean'
    ? value
      ? 'yes'
      : 'no'
    : Array.isArray(value)
      ? JSON.stringify(value).replaceAll(',', ', ')
      : JSON.stringify(value)
