/**
 * Interprets the records of dns-persist-01 (draft-ietf-acme-dns-persist §4, §5, §6): one name's TXT
 * records in, one verdict out. Pure.
 *
 * Each record counts alone: one right record suffices, and records for other servers are ignored.
 * Otherwise the error describes the record closest to success.
 */

import { issuerPart, parameterValues, parseIssueValue, repeatedTag } from '../../src/shared/protocol/caa.ts'
import { ANY_DOMAIN, hashedAccountUri, isHashedAccountUri } from '../../src/shared/protocol/challenge.ts'

export interface TxtRecord {
  /** All character-strings of the record, joined; one character per octet. */
  text: string
  ttlSeconds: number
}

/** The request to authorize, and the policy of this server. */
export interface PersistSubject {
  /** Name of the records, without `_validation-persist`: the identifier or a parent. */
  recordName: string
  /** True when `recordName` is a parent of the identifier. */
  below: boolean
  /** The identifier is ordered with `*.`. */
  wildcard: boolean
  /** Lower case A-labels, no final dot. */
  issuerDomainNames: readonly string[]
  accountUrl: string
  /** Draft -02: hashed account URIs are accepted too. */
  hashed?: { prefix: string; thumbprints: readonly string[] }
  /** False: no record authorizes a wildcard. The caller checks whether a record may authorize names below. */
  allowWildcardPolicy: boolean
}

export type RecordsVerdict =
  | { kind: 'authorized'; text: string; validForSeconds: number | undefined }
  | ({ kind: 'refused' } & Refusal)
  /** No record names this server. */
  | { kind: 'none' }

interface Refusal {
  problem: 'malformed' | 'unauthorized'
  /** Our own words, without text of the record. */
  reason: string
  /** A later look may find more. */
  retryable: boolean
}

/**
 * Lower limit of a lifetime from a TTL, because the waiting order must still finalize. Reuse
 * requires an hour, so a TTL of zero allows no reuse (draft -01 §7.8).
 */
export const MIN_LIFETIME_SECONDS = 60
/** 9999-12-31T23:59:59Z, the last instant of RFC 3339. A larger value is a mistake, such as milliseconds. */
const MAX_TIMESTAMP = 253_402_300_799
/** RFC 2181 §8: a TTL with the upper bit set counts as zero. */
const MAX_TTL = 0x7fff_ffff

/** Records of one name for this server. An account needs one record, or one per form. */
const MAX_RECORDS = 100
const TOO_MANY: Refusal = {
  problem: 'unauthorized',
  reason: `is one of more than ${MAX_RECORDS} for this server, which are too many to read`,
  retryable: true,
}

/** Order of refusals; the client sees the one furthest to the right. */
const CLOSENESS = ['another account', 'not readable', 'not sufficient'] as const

type Judged =
  | { authorized: true; text: string; validForSeconds: number | undefined }
  | { authorized: false; closeness: (typeof CLOSENESS)[number]; refusal: Refusal }

/** @param now reference time of `persistUntil` and the lifetime */
export function evaluateRecords(records: readonly TxtRecord[], subject: PersistSubject, now: Date): RecordsVerdict {
  const ours = records.filter((record) => namesUs(record.text, subject))
  if (ours.length > MAX_RECORDS) return { kind: 'refused', ...TOO_MANY }
  const context: Context = { subject, hashedUris: hashedUrisOf(subject), now }
  const judged = ours.map((record) => judge(record, context))
  const authorized = judged.filter((one) => one.authorized)
  if (authorized.length > 0) {
    const { text, validForSeconds } = authorized.reduce((best, one) => (lifetime(one) > lifetime(best) ? one : best))
    return { kind: 'authorized', text, validForSeconds }
  }
  const refused = judged.filter((one) => !one.authorized)
  const [first] = refused.sort((a, b) => CLOSENESS.indexOf(b.closeness) - CLOSENESS.indexOf(a.closeness))
  return first ? { kind: 'refused', ...first.refusal } : { kind: 'none' }
}

/** Also true for records with other errors, so that their owner learns of them. */
export function namesUs(text: string, { issuerDomainNames }: Pick<PersistSubject, 'issuerDomainNames'>): boolean {
  return issuerDomainNames.includes(issuerPart(text).toLowerCase().replace(/\.$/, ''))
}

const lifetime = ({ validForSeconds }: { validForSeconds: number | undefined }) =>
  validForSeconds ?? Number.POSITIVE_INFINITY

interface Context {
  subject: PersistSubject
  /** All hashed URIs of the account. */
  hashedUris: () => ReadonlySet<string>
  now: Date
}

function judge({ text, ttlSeconds }: TxtRecord, { subject, hashedUris, now }: Context): Judged {
  const value = parseIssueValue(text)
  if (!value) return unreadable('is not an issue value (RFC 8659 §4.2)')
  if (repeatedTag(value) !== undefined) return unreadable('has a parameter twice')
  const [accountUri = ''] = parameterValues(value, 'accounturi')
  if (accountUri === '') return unreadable('has no accounturi')

  const account = identifyAccount(accountUri, subject, hashedUris)
  if (account === 'malformed') return unreadable('has an accounturi that is no hashed account URI of this server')
  if (account === 'another') return anotherAccount(subject)

  const until = parsePersistUntil(parameterValues(value, 'persistuntil')[0])
  if (until === 'malformed') return unreadable('has a persistUntil that is no timestamp in seconds')
  const nowSeconds = now.getTime() / 1000
  if (until !== undefined && nowSeconds > until) return insufficient('has expired: its persistUntil is in the past')

  const hasWildcardPolicy = parameterValues(value, 'policy')[0]?.toLowerCase() === 'wildcard'
  const missing = missingPolicy(hasWildcardPolicy, subject)
  if (missing !== undefined) return insufficient(missing)

  // Draft -01 §7.8 limits reuse by the TTL, and draft -02 §7.9 forbids that. Each record follows the draft of its form.
  const ttlBound = account === 'url' ? ttlLifetime(ttlSeconds) : undefined
  const untilBound = until === undefined ? undefined : Math.floor(until - nowSeconds)
  return { authorized: true, text, validForSeconds: smaller(ttlBound, untilBound) }
}

/** Simple string comparison (RFC 3986 §6.2.1): no case folding, no decoding. */
function identifyAccount(
  uri: string,
  { accountUrl, hashed }: PersistSubject,
  hashedUris: () => ReadonlySet<string>,
): 'url' | 'hash' | 'another' | 'malformed' {
  if (uri === accountUrl) return 'url'
  if (!hashed?.prefix || !uri.startsWith(hashed.prefix)) return 'another'
  if (!isHashedAccountUri(hashed.prefix, uri)) return 'malformed'
  return hashedUris().has(uri) ? 'hash' : 'another'
}

/** Computed once, on first use: an account can have many keys, and a name many records. */
function hashedUrisOf({ accountUrl, hashed, recordName }: PersistSubject): () => ReadonlySet<string> {
  let made: Set<string> | undefined
  return () => {
    made ??= new Set(
      (hashed?.thumbprints ?? []).flatMap((thumbprint) =>
        [recordName, ANY_DOMAIN].map((domainName) =>
          hashedAccountUri(hashed?.prefix ?? '', { domainName, thumbprint, accountUrl }),
        ),
      ),
    )
    return made
  }
}

/** Seconds since 1970; undefined when absent. */
function parsePersistUntil(value: string | undefined): number | undefined | 'malformed' {
  if (value === undefined) return undefined
  if (!/^[0-9]+$/.test(value)) return 'malformed'
  const seconds = Number(value)
  return seconds <= MAX_TIMESTAMP ? seconds : 'malformed'
}

function missingPolicy(hasWildcardPolicy: boolean, subject: PersistSubject): string | undefined {
  const { wildcard, below, allowWildcardPolicy } = subject
  if (!wildcard && !below) return undefined
  if (!hasWildcardPolicy) return `lacks policy=wildcard, which ${wildcard ? 'a wildcard name' : 'a name below'} needs`
  return wildcard && !allowWildcardPolicy
    ? 'cannot authorize a wildcard name: this server does not allow it'
    : undefined
}

function ttlLifetime(ttlSeconds: number): number {
  return Math.max(MIN_LIFETIME_SECONDS, ttlSeconds > MAX_TTL ? 0 : ttlSeconds)
}

function smaller(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}

/** Retryable: our record may still spread, whatever another account's record contains. */
function anotherAccount({ accountUrl }: PersistSubject): Judged {
  const reason = `is for another account than ${accountUrl}`
  return {
    authorized: false,
    closeness: 'another account',
    refusal: { problem: 'unauthorized', reason, retryable: true },
  }
}

function unreadable(reason: string): Judged {
  return { authorized: false, closeness: 'not readable', refusal: { problem: 'malformed', reason, retryable: false } }
}

function insufficient(reason: string): Judged {
  return {
    authorized: false,
    closeness: 'not sufficient',
    refusal: { problem: 'unauthorized', reason, retryable: false },
  }
}
