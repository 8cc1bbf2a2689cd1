/** What a question is. */

import { hostOf } from '../shared/lib/host.ts'
import type { Answers, Key } from './answers.ts'
import type { Facts } from './facts.ts'

export interface Question {
  key: Key
  text: string
  /** What an answer means, for somebody who has not read the manual. */
  about: string
  /** Words of a choice, each with what it means. */
  choices?: Readonly<Record<string, string>>
  /** Not shown while it is typed, and not kept in a file of answers. */
  isSecret?: true
  /** An empty answer means that it comes later, so it is asked for at each run. */
  mayFollow?: true
  /** Absent: always asked. */
  when?(answers: Answers, facts: Facts): boolean
  /** Taken when the answer is left out; without it an answer is needed. */
  usual?(answers: Answers, facts: Facts): unknown
  /** @returns what is wrong with an answer beside the others */
  objection?(answers: Answers, facts: Facts): string | undefined
}

/** Whose names the service issues, as far as its own name says it. */
export const domainOf = (answers: Answers) => {
  const host = hostOf(answers.url)
  const parent = host.slice(host.indexOf('.') + 1)
  return parent.includes('.') ? parent : host
}
