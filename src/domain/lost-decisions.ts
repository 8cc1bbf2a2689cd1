/** Reports to people the acts that a fail-over has lost (docs/decisions/decisions-outlive-the-database.md). Pure. */

import { plural } from '../shared/lib/plural.ts'
import { actionText, utcText } from './action-words.ts'
import { OPEN_OUTCOMES, type Outcome } from './decision.ts'

export interface LostAct {
  at: Date
  by: string
  act: string
  /** Empty where the act says all. */
  subject: string
  outcome: Outcome
}

interface FailOver {
  /** The last commit that the new primary has; undefined where that is not known. */
  from: Date | undefined
  to: Date
  decisions: readonly LostAct[]
  /** A sentence about certificates and revocations; undefined for none. */
  back: string | undefined
}

export interface Story {
  /** The subject. */
  message: string
  /** One sentence. */
  reason: string
  /** For a mail; none where no act was lost. */
  lines: readonly string[]
}

/** A mail of a screen or two is read. */
const MOST_ACTS = 100
const MOST_SUBJECTS = 10
/** Characters of a subject or an author. A hundred acts are 40 KB. */
const MOST_OF_A_TEXT = 200
const COMMAND = 'chancery reconcile --lost'

/** Outcomes that ask for something come first. */
const HEADINGS: Readonly<Record<Exclude<Outcome, 'entry'>, string>> = {
  lost: 'These acts are lost. Repeat what you still want.',
  partly: 'Of these acts what restricts is back, and what permits is lost. Repeat what you still want.',
  restored: 'These acts are back. Nothing is to be done.',
  overtaken: 'After these acts came others that count, or what they were about is gone. Nothing is to be done.',
}

/** Whether a person has to look at it. */
export const isOpen = ({ outcome }: Pick<LostAct, 'outcome'>): boolean =>
  (OPEN_OUTCOMES as readonly Outcome[]).includes(outcome)

export function storyOf({ from, to, decisions, back }: FailOver): Story {
  const message = 'the database was behind its signer'
  if (decisions.length === 0) return { message, reason: back ?? '', lines: [] }
  const acts = plural(decisions.length, 'act')
  const lost = decisions.filter(isOpen).length
  const since = from ? ` since ${utcText(from)}` : ''
  const were = decisions.length === 1 ? 'was' : 'were'
  const what = `${acts}${since} ${were} missing: ${lost === 0 ? 'none' : lost} ${lost < 2 ? 'is' : 'are'} lost`
  const toDo = lost === 0 ? what : `${what}, wholly or in part; repeat what you still want (${COMMAND})`
  return {
    message: lost === 0 ? message : `${message}, and ${plural(lost, 'act')} ${lost === 1 ? 'is' : 'are'} lost`,
    reason: back === undefined ? toDo : `${back}; ${toDo}`,
    lines: [
      from
        ? `From ${utcText(from)} to ${utcText(to)} the database lost ${acts}.`
        : `Until ${utcText(to)} the database lost ${acts}; since when is not known.`,
      ...(back === undefined ? [] : [`${back}.`]),
      '',
      ...reportByOutcome(decisions, MOST_ACTS),
      '',
      `All of them: "Lost decisions" in the console, or ${COMMAND}`,
    ],
  }
}

/** One paragraph an outcome, with an empty line between two. */
export function reportByOutcome(decisions: readonly LostAct[], most = Number.POSITIVE_INFINITY): string[] {
  const paragraphs: string[][] = []
  let left = most
  let unreported = 0
  for (const outcome of OUTCOMES_BY_NEED) {
    const reported = linesOf(decisions.filter((one) => one.outcome === outcome))
    if (reported.length === 0) continue
    const shown = reported.slice(0, left)
    left -= shown.length
    unreported += reported.length - shown.length
    if (shown.length > 0) paragraphs.push([HEADINGS[outcome], ...shown])
  }
  if (unreported > 0) paragraphs.at(-1)?.push(`and ${unreported} more: ${COMMAND}`)
  const entries = decisions.filter(({ outcome }) => outcome === 'entry').length
  if (entries > 0)
    paragraphs.push([`Of ${plural(entries, 'act')} nothing but ${its(entries)} in the audit log was lost.`])
  return paragraphs.flatMap((lines, at) => (at === 0 ? lines : ['', ...lines]))
}

const OUTCOMES_BY_NEED = Object.keys(HEADINGS) as (keyof typeof HEADINGS)[]
const its = (entries: number) => (entries === 1 ? 'its entry' : 'their entries')

function linesOf(decisions: readonly LostAct[]): string[] {
  const inOrder = decisions.toSorted((a, b) => a.at.getTime() - b.at.getTime())
  const accounts = inOrder.filter(({ act }) => act === 'acme.new_account')
  if (accounts.length < 2) return inOrder.map(lineOf)
  return [manyOf(accounts), ...inOrder.filter(({ act }) => act !== 'acme.new_account').map(lineOf)]
}

const lineOf = ({ at, act, subject, by }: LostAct): string =>
  [utcText(at), actionText(act), ...(subject === '' ? [] : [short(subject)]), `by ${short(by)}`].join(', ')

function manyOf(decisions: readonly LostAct[]): string {
  const [first] = decisions as readonly [LostAct]
  const subjects = decisions.slice(0, MOST_SUBJECTS).map(({ subject }) => short(subject))
  const rest = decisions.length - subjects.length
  const more = rest > 0 ? ` and ${rest} more` : ''
  return `${utcText(first.at)} and later, ${actionText(first.act)}, ${decisions.length} times: ${subjects.join(', ')}${more}`
}

/** Control characters of a stranger's text would end its line. */
function short(text: string): string {
  const line = text.slice(0, 2 * MOST_OF_A_TEXT).replaceAll(/[\p{Cc}\u2028\u2029\s]+/gu, ' ')
  return line.length > MOST_OF_A_TEXT ? `${line.slice(0, MOST_OF_A_TEXT - 1)}…` : line
}
