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
  isOneLine,
  readDecision,
  thingOf,
} from '../../domain/decision.ts'
import type { DecisionStore } from '../../store/decision-store.ts'
import type { Incarnation } from '../../store/incarnation.ts'
import type { DecisionFile } from './decision-file.ts'

export interface DecisionPlaces {
  /** Undefined where no certificate is signed here. */
  records: Pick<SignerRecords, 'state' | 'decisions'> | undefined
  file: Pick<DecisionFile, 'read'> | undefined
}

interface DecisionComparisonParts extends DecisionPlaces {
  identity: DatabaseIdentity
  /** The incarnation that is compared. */
  place: Incarnation
  store: Pick<DecisionStore, 'mark' | 'presentEntries' | 'dealtWith'>
  /** @returns ids of those that the database lacks */
  missingOfAcme(decisions: readonly Decision[]): Promise<ReadonlySet<string>>
}

interface FoundDecisions {
  /** In the order in which they were decided. */
  missing: readonly MissingDecision[]
  /** Records that are damaged, gone before they were compared, or of a later release. */
  unreadable: number
  /** Up to where the places were read. */
  read: readonly { place: string; line: number }[]
}

export interface MissingDecision {
  decision: Decision
  /** A later decision about the same thing counts in its place. */
  isOvertaken: boolean
  /** It was decided in this database, or in one that it goes back to; else in a copy. */
  isOwn: boolean
}

/** The decisions that a place has after its mark. */
interface Recorded {
  decisions: Decision[]
  unreadable: number
  place: string
  line: number
}

/** @throws errors of database, signer and file */
export async function findMissing(parts: DecisionComparisonParts): Promise<FoundDecisions> {
  const ofTheSigner = await ofSigner(parts)
  const ofFiles = await ofFile(parts)
  const recorded = [...ofTheSigner, ...ofFiles]
  const decisions = merged(
    ofTheSigner.flatMap((one) => one.decisions),
    ofFiles.flatMap((one) => one.decisions),
  )
  const missing = await missingOf(decisions, parts)
  return {
    missing: withOvertaken(missing, decisions, parts.place),
    unreadable: recorded.reduce((sum, one) => sum + one.unreadable, 0),
    read: recorded.map(({ place, line }) => ({ place, line })),
  }
}

/** Each once: the signer may have taken what it did not confirm. The signer's order stays, as clocks differ. */
function merged(signers: readonly Decision[], files: readonly Decision[]): Decision[] {
  const all: Decision[] = []
  let at = 0
  for (const decision of signers) {
    for (let next = files[at]; next && Date.parse(next.at) < Date.parse(decision.at); next = files[++at]) all.push(next)
    all.push(decision)
  }
  all.push(...files.slice(at))
  return [...new Map(all.map((decision) => [decision.id, decision])).values()]
}

function add(
  recorded: Recorded,
  identity: DatabaseIdentity,
  value: Readonly<Record<string, unknown>> | undefined,
): void {
  const decision = value === undefined ? 'damaged' : readDecision(identity, value)
  if (typeof decision === 'object') recorded.decisions.push(decision)
  else if (decision !== 'foreign') recorded.unreadable += 1
}

async function ofSigner({ records, store, identity }: DecisionComparisonParts): Promise<Recorded[]> {
  const state = await records?.state()
  if (!records || !state) return []
  const place = state.chain
  const mark = await store.mark(place)
  const found: Recorded = { decisions: [], unreadable: 0, place, line: mark }
  let after = { seq: mark, part: 0 }
  for (;;) {
    const page = await records.decisions(after)
    if (!page) return []
    if (mark > 0 && page.first > mark + 1 && after.seq === mark) found.unreadable += 1
    for (const value of page.lines.flatMap(({ decisions }) => decisions)) add(found, identity, value)
    after = page.last
    found.line = page.last.seq
    if (!page.more) return [found]
  }
}

async function ofFile({ file, store, identity }: DecisionComparisonParts): Promise<Recorded[]> {
  const files = (await file?.read()) ?? []
  const recorded: Recorded[] = []
  for (const [at, { id, after, lines }] of files.entries()) {
    // A file without its first line has no mark.
    const mark = id === undefined ? 0 : await store.mark(id)
    const found: Recorded = { decisions: [], unreadable: 0, place: id ?? '', line: lines.at(-1)?.number ?? mark }
    // Decisions before the oldest file are gone.
    if (id === undefined || (at === 0 && after !== undefined && mark === 0)) found.unreadable += 1
    for (const { number, value } of lines) if (number > mark) add(found, identity, value)
    recorded.push(found)
  }
  return recorded
}

const PAGE = 1_000

async function missingOf(
  decisions: readonly Decision[],
  { store, missingOfAcme, place: { incarnation } }: DecisionComparisonParts,
): Promise<Decision[]> {
  const missing: Decision[] = []
  for (let at = 0; at < decisions.length; at += PAGE) {
    const page = decisions.slice(at, at + PAGE)
    const entries = page.flatMap(({ entry }) => entry ?? [])
    const present = await store.presentEntries(entries)
    const acme = page.filter(isOfAcme)
    const lost = acme.length > 0 ? await missingOfAcme(acme) : new Set<string>()
    const isMissing = (decision: Decision) => {
      if (isOfAcme(decision)) return lost.has(decision.id)
      if (decision.entry) return !present.has(decision.entry.mac)
      // A command without the key of the audit log leaves no entry.
      return decision.incarnation !== undefined && decision.incarnation !== incarnation
    }
    const found = page.filter(isMissing)
    const known = await store.dealtWith(found.map(({ id }) => id))
    missing.push(...found.filter(({ id }) => !known.has(id)))
  }
  return missing
}

const isOfAcme = ({ act }: Decision) => ACME_ACTS.includes(act as AcmeAct)

/** @param all includes decisions that the database has */
function withOvertaken(missing: readonly Decision[], all: readonly Decision[], place: Incarnation): MissingDecision[] {
  const places = [place.incarnation, place.compared, ...place.former]
  const isOwn = ({ incarnation: of }: Decision) => of === undefined || places.some((one) => isOneLine(one, of))
  const last = new Map<string, Decision>()
  for (const decision of all.filter(isOwn)) {
    const thing = thingOf(decision)
    const before = thing === undefined ? undefined : last.get(thing)
    if (thing !== undefined && !(before && isLater(before, decision))) last.set(thing, decision)
  }
  return missing.map((decision) => {
    const thing = thingOf(decision)
    const isOvertaken = isOwn(decision) && thing !== undefined && last.get(thing)?.id !== decision.id
    return { decision, isOvertaken, isOwn: isOwn(decision) }
  })
}

/** Instances may record in another order than they committed; the numbers of the audit log decide. */
const isLater = (one: Decision, other: Decision) =>
  one.incarnation === other.incarnation &&
  (one.entry?.sequence ?? 0) > (other.entry?.sequence ?? Number.POSITIVE_INFINITY)
