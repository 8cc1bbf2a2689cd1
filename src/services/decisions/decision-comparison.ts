/**
 * Finds decisions that the database lacks: it went back to an earlier time, and the signer's records or the file beside this
 * instance have them (docs/decisions/decisions-outlive-the-database.md).
 */

import type { SignerRecords } from '../../ca/signer-records.ts'
import {
  ACME_ACTS,
  type AcmeAct,
  type DatabaseIdentity,
  type Decision,
  readDecision,
  thingOf,
} from '../../domain/decision.ts'
import type { DecisionStore } from '../../store/decision-store.ts'
import type { DecisionFile } from './decision-file.ts'

export interface DecisionPlaces {
  /** Undefined where no certificate is signed here. */
  records: Pick<SignerRecords, 'state' | 'decisions'> | undefined
  file: Pick<DecisionFile, 'read'> | undefined
}

export interface DecisionComparisonParts extends DecisionPlaces {
  identity: DatabaseIdentity
  store: Pick<DecisionStore, 'mark' | 'presentEntries' | 'dealtWith'>
  /** @returns ids of those that the database lacks */
  lackingOfAcme(decisions: readonly Decision[]): Promise<ReadonlySet<string>>
}

export interface FoundDecisions {
  /** In the order in which they were decided. */
  lacking: readonly LackingDecision[]
  /** Records that are damaged, gone before they were compared, or of a later release. */
  unreadable: number
  /** Up to where the places were read. */
  read: readonly { place: string; line: number }[]
}

export interface LackingDecision {
  decision: Decision
  /** A later decision about the same thing counts. */
  isOvertaken: boolean
}

/** What a place has after its mark. */
interface Recorded {
  values: Readonly<Record<string, unknown>>[]
  unreadable: number
  place: string
  line: number
}

/**
 * @param isAnother the database is not the one that was compared before. Then a command's act that left no entry may lack, too
 * @throws errors of database, signer and file
 */
export async function findLacking(parts: DecisionComparisonParts, isAnother: boolean): Promise<FoundDecisions> {
  const { identity } = parts
  const recorded = [...(await ofSigner(parts)), ...(await ofFile(parts))]
  let unreadable = recorded.reduce((sum, one) => sum + one.unreadable, 0)
  const decisions: Decision[] = []
  for (const value of recorded.flatMap(({ values }) => values)) {
    const decision = readDecision(identity, value)
    if (typeof decision === 'object') decisions.push(decision)
    else if (decision !== 'foreign') unreadable += 1
  }
  // The signer's are in their order; those of a file come between them by their time.
  if (recorded.length > 1) decisions.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
  const lacking = await lackingOf(decisions, parts, isAnother)
  return {
    lacking: withOvertaken(lacking, decisions),
    unreadable,
    read: recorded.map(({ place, line }) => ({ place, line })),
  }
}

async function ofSigner({ records, store }: DecisionComparisonParts): Promise<Recorded[]> {
  const state = await records?.state()
  if (!records || !state) return []
  const place = state.chain
  const mark = await store.mark(place)
  const found: Recorded = { values: [], unreadable: 0, place, line: mark }
  let after = { seq: mark, part: 0 }
  for (;;) {
    const page = await records.decisions(after)
    if (!page) return []
    if (mark > 0 && page.first > mark + 1 && after.seq === mark) found.unreadable += 1
    found.values.push(...page.lines.flatMap(({ decisions }) => decisions))
    after = page.last
    found.line = page.last.seq
    if (!page.more) return [found]
  }
}

async function ofFile({ file, store }: DecisionComparisonParts): Promise<Recorded[]> {
  const recorded: Recorded[] = []
  for (const { id, lines } of (await file?.read()) ?? []) {
    // A file without its first line has no mark.
    const mark = id === undefined ? 0 : await store.mark(id)
    const further = lines.filter(({ number }) => number > mark)
    const values = further.flatMap(({ value }) => (value ? [value] : []))
    const unreadable = further.length - values.length + (id === undefined ? 1 : 0)
    recorded.push({ values, unreadable, place: id ?? '', line: lines.at(-1)?.number ?? mark })
  }
  return recorded.filter(({ place, values }) => place !== '' || values.length > 0)
}

const PAGE = 1_000

async function lackingOf(
  decisions: readonly Decision[],
  { store, lackingOfAcme }: DecisionComparisonParts,
  isAnother: boolean,
): Promise<Decision[]> {
  const lacking: Decision[] = []
  for (let at = 0; at < decisions.length; at += PAGE) {
    const page = decisions.slice(at, at + PAGE)
    const entries = page.flatMap(({ entry }) => entry ?? [])
    const present = await store.presentEntries(entries)
    const acme = page.filter(isOfAcme)
    const lost = acme.length > 0 ? await lackingOfAcme(acme) : new Set<string>()
    const isLacking = (decision: Decision) => {
      if (isOfAcme(decision)) return lost.has(decision.id)
      return decision.entry ? !present.has(decision.entry.mac) : isAnother
    }
    const found = page.filter(isLacking)
    const known = await store.dealtWith(found.map(({ id }) => id))
    lacking.push(...found.filter(({ id }) => !known.has(id)))
  }
  return lacking
}

const isOfAcme = ({ act }: Decision) => ACME_ACTS.includes(act as AcmeAct)

/** @param all what the database has counts, too */
function withOvertaken(lacking: readonly Decision[], all: readonly Decision[]): LackingDecision[] {
  const last = new Map<string, Decision>()
  for (const decision of all) {
    const thing = thingOf(decision)
    if (thing !== undefined) last.set(thing, decision)
  }
  return lacking.map((decision) => {
    const thing = thingOf(decision)
    return { decision, isOvertaken: thing !== undefined && last.get(thing) !== decision }
  })
}
