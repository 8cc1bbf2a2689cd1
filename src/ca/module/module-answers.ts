/**
 * Reads the answers of a CA module as if a stranger had sent them (docs/ca-modules.md). Pure.
 *
 * Also the state kept between two steps, and the meaning of a module's errors.
 */

import { ModuleError } from '../../../workers/module/module-thread.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../../shared/pki/algorithms.ts'
import { decodePem, PemError } from '../../shared/pki/pem.ts'
import { problemDocument } from '../../shared/protocol/problem.ts'
import { CaError } from '../backend.ts'
import {
  type BackendState,
  explanationOf,
  type IssuanceStep,
  renewalRetryMs,
  type UpstreamRenewal,
} from '../csr-backend.ts'

/** The message is the end of a sentence that starts with "the answer". */
export class WrongAnswer extends Error {}

/** An issuer whose key the module has. */
export interface ModuleIssuer {
  /** DER, the signing certificate first. */
  chain: readonly [Buffer, ...Buffer[]]
  /** Undefined takes the usual one of the key. */
  algorithm: SignatureAlgorithm | undefined
  /** URLs in its certificates; undefined takes `ca.aia_issuer_urls`. */
  caIssuersUrls: readonly string[] | undefined
  crlUrls: readonly string[]
}

const DEFAULT_RETRY_SECONDS = 5
/** A module that always answers "at once" would fill the database with commits. */
const LEAST_RETRY_SECONDS = 1
const MOST_RETRY_SECONDS = 3_600
const MAX_STATE_CHARACTERS = 65_536
const MAX_REASON_CHARACTERS = 500
const MAX_CHAINS = 10

/** For the client, in words of our own. */
const REFUSALS = {
  serverInternal: 'the CA refused to issue this certificate',
  badCSR: 'the CA does not accept this CSR',
  rejectedIdentifier: 'the CA does not certify a name of the order',
  unauthorized: 'the CA does not permit this certificate',
} as const
type RefusalType = keyof typeof REFUSALS
const isRefusalType = (text: unknown): text is RefusalType => typeof text === 'string' && Object.hasOwn(REFUSALS, text)

/** @throws WrongAnswer */
export function readStep(answer: unknown): IssuanceStep {
  const members = membersOf(answer)
  switch (members['status']) {
    case 'issued':
      return {
        status: 'issued',
        chain: readChain(members['chain']),
        alternateChains: readAlternates(members['alternateChains']),
      }
    case 'pending':
      return {
        status: 'pending',
        state: readState(members['state']),
        retryAfterMs: readRetry(members['retryAfterSeconds']),
        // A wrong `true` costs one more question; a wrong `false` hides a certificate.
        mayHaveIssued: members['mayHaveIssued'] !== false,
      }
    case 'refused':
      return refusal(members['reason'], members['problem'])
    default:
      throw new WrongAnswer('has a status that is none of issued, pending, refused')
  }
}

export function refusal(reason: unknown, problem: unknown = 'serverInternal'): IssuanceStep & { status: 'refused' } {
  if (!isRefusalType(problem))
    throw new WrongAnswer(`has a problem that is none of ${Object.keys(REFUSALS).join(', ')}`)
  const text = typeof reason === 'string' && reason !== '' ? printable(reason) : 'without a reason'
  return { status: 'refused', problem: problemDocument(problem, REFUSALS[problem]), reason: text }
}

/** @throws WrongAnswer */
export function readIssuer(answer: unknown): ModuleIssuer {
  const { chain, algorithm, caIssuersUrls, crlUrls } =
    typeof answer === 'string' ? { chain: answer } : membersOf(answer)
  if (algorithm !== undefined && !(typeof algorithm === 'string' && Object.hasOwn(SIGNATURE_ALGORITHMS, algorithm)))
    throw new WrongAnswer(`has an algorithm that is none of ${Object.keys(SIGNATURE_ALGORITHMS).join(', ')}`)
  return {
    chain: readChain(chain),
    algorithm: algorithm as SignatureAlgorithm | undefined,
    caIssuersUrls: caIssuersUrls === undefined ? undefined : readUrls(caIssuersUrls),
    crlUrls: crlUrls === undefined ? [] : readUrls(crlUrls),
  }
}

/** @throws WrongAnswer */
export function readSignature(answer: unknown): Buffer {
  if (!(answer instanceof Uint8Array) || answer.length === 0) throw new WrongAnswer('is no signature in bytes')
  return Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength)
}

/** @throws WrongAnswer */
export function readRenewal(answer: unknown): UpstreamRenewal | undefined {
  if (answer === undefined || answer === null) return undefined
  const { start, end, explanationUrl, retryAfterSeconds } = membersOf(answer)
  const [from, to] = [readTime(start), readTime(end)]
  if (from >= to) throw new WrongAnswer('has an end that is not after its start')
  return {
    start: from,
    end: to,
    explanationUrl: explanationOf(explanationUrl),
    retryAfterMs: renewalRetryMs(secondsOf(retryAfterSeconds ?? MOST_RETRY_SECONDS) * 1000),
  }
}

function membersOf(answer: unknown): Record<string, unknown> {
  if (typeof answer !== 'object' || answer === null) throw new WrongAnswer('is no object')
  return answer as Record<string, unknown>
}

function readChain(text: unknown): [Buffer, ...Buffer[]] {
  if (typeof text !== 'string') throw new WrongAnswer('has no chain, a text in PEM')
  try {
    const [first, ...others] = decodePem(text).flatMap(({ label, der }) => (label === 'CERTIFICATE' ? [der] : []))
    if (first) return [first, ...others]
  } catch (error) {
    if (!(error instanceof PemError)) throw error
    throw new WrongAnswer(`has a chain that is no PEM: ${error.message}`)
  }
  throw new WrongAnswer('has a chain without a certificate')
}

function readAlternates(chains: unknown): Buffer[][] {
  if (chains === undefined) return []
  if (!Array.isArray(chains) || chains.length > MAX_CHAINS)
    throw new WrongAnswer(`has alternateChains that are no list of at most ${MAX_CHAINS}`)
  return chains.map(readChain)
}

function readState(state: unknown): BackendState {
  let text: string | undefined
  try {
    text = JSON.stringify(state ?? null)
  } catch {
    throw new WrongAnswer('has a state that is no JSON')
  }
  if (text === undefined || text.length > MAX_STATE_CHARACTERS)
    throw new WrongAnswer(`has a state of more than ${MAX_STATE_CHARACTERS} characters of JSON`)
  return JSON.parse(text) as BackendState
}

function readRetry(seconds: unknown = DEFAULT_RETRY_SECONDS): number {
  return Math.min(MOST_RETRY_SECONDS, Math.max(LEAST_RETRY_SECONDS, secondsOf(seconds))) * 1000
}

function secondsOf(seconds: unknown): number {
  if (typeof seconds === 'number' && seconds >= 0) return seconds
  throw new WrongAnswer('has a retryAfterSeconds that is no number')
}

function readUrls(urls: unknown): string[] {
  const isUrl = (url: unknown) => typeof url === 'string' && /^https?:\/\/\S+$/.test(url) && URL.canParse(url)
  if (!Array.isArray(urls) || urls.length > MAX_CHAINS || !urls.every(isUrl))
    throw new WrongAnswer('has URLs that are no list of http URLs')
  return urls as string[]
}

function readTime(time: unknown): Date {
  const at = time instanceof Date ? time : new Date(typeof time === 'string' ? time : Number.NaN)
  if (Number.isNaN(at.getTime())) throw new WrongAnswer('has a start or end that is no time')
  return at
}

const printable = (text: string) => text.slice(0, MAX_REASON_CHARACTERS).replaceAll(/\p{C}+/gu, ' ')

/** @throws ModuleError */
export type ModuleCaller = (method: string, argument: unknown, context: object, signal: AbortSignal) => Promise<unknown>

/** The state of an issuance, as JSON in the database. */
export interface Held {
  /** The module's own; undefined before its first answer. */
  own?: BackendState
  /** Base64 of what is to be signed, and of the issuer's chain. */
  tbs?: string
  chain?: readonly string[]
  mayHaveIssued?: true
  /** The step that is waiting for a thread was begun before. */
  isRepeated?: true
}

export const heldOf = (state: BackendState | undefined): Held => (state ?? {}) as Held

export const nothingToCome = (): IssuanceStep => ({
  ...refusal('the order had failed before the module was asked'),
  contact: 'none',
})

/** A step that waits until the module has a thread free. */
export function waiting(held: Held, isRepeated: boolean): IssuanceStep {
  const state = { ...held, ...(isRepeated && { isRepeated }) }
  return {
    status: 'pending',
    state: state as BackendState,
    retryAfterMs: BUSY_WAIT_MS,
    mayHaveIssued: isRepeated || held.mayHaveIssued === true,
    contact: 'none',
  }
}
const BUSY_WAIT_MS = 1_000

/** @param canIssue whether a certificate may exist once the module has been called */
export function asCaError(name: string, cause: unknown, canIssue: boolean): CaError {
  if (cause instanceof CaError) return cause
  const said = messageOf(cause)
  // Asked again it would give the same answer, and issue once more.
  if (cause instanceof WrongAnswer)
    return new CaError(`${name}: the answer ${said}`, { retryable: !canIssue, mayHaveIssued: canIssue, cause })
  if (!(cause instanceof ModuleError)) return new CaError(`${name}: ${said}`, { retryable: true, cause })
  const { kind, facts } = cause
  const retryAfter = facts['retryAfterSeconds']
  return new CaError(`${name} ${said}`, {
    retryable: facts['retryable'] !== false,
    // Only the module knows that nothing was issued, and it has to say so.
    mayHaveIssued: canIssue && (kind === 'lost' || (kind === 'failed' && facts['mayHaveIssued'] !== false)),
    retryAfterMs: typeof retryAfter === 'number' ? Math.max(0, retryAfter) * 1000 : undefined,
    cause,
  })
}
