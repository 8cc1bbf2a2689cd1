/** Orders, authorizations and challenges as an upstream describes them (RFC 8555 §7.1.3 to §7.1.5). */

import type { JsonObject } from '../../shared/lib/encoding.ts'
import { authorizedIdentifier, type Identifier } from '../../shared/protocol/identifier.ts'
import type { Response } from './order-steps.ts'
import { type Answer, absolute, type UpstreamSession } from './upstream-client.ts'
import { describeError, UpstreamNonsense, UpstreamProblem } from './upstream-problem.ts'

export interface UpstreamOrder {
  status: 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'
  authorizations: readonly string[]
  finalize: string
  certificate: string | undefined
  error: unknown
  retryAfterMs: number | undefined
}

const STATUSES: readonly string[] = ['pending', 'ready', 'processing', 'valid', 'invalid']
/** RFC 8555 §8.1: base64url. It becomes the name of a file and a word of a command line. */
const TOKEN = /^[A-Za-z0-9_-]{1,255}$/
const AT_ONCE = 8

/**
 * @param most authorizations, one for each name of the order
 * @throws UpstreamNonsense
 */
export function readOrder({ json, retryAfterMs }: Answer, url: string, most: number): UpstreamOrder {
  const { status, authorizations, finalize, certificate, error } = requireObject(json, 'an order')
  if (typeof status !== 'string' || !STATUSES.includes(status)) throw new UpstreamNonsense('an order has no status')
  if (typeof finalize !== 'string') throw new UpstreamNonsense('an order has no finalize')
  if (!Array.isArray(authorizations)) throw new UpstreamNonsense('an order has no list of authorizations')
  if (authorizations.length > most) throw new UpstreamNonsense('an order has more authorizations than names')
  return {
    status: status as UpstreamOrder['status'],
    authorizations: authorizations.map((one) => absolute(String(one), url)),
    finalize: absolute(finalize, url),
    certificate: typeof certificate === 'string' ? absolute(certificate, url) : undefined,
    error,
    retryAfterMs,
  }
}

interface Authorization {
  status: string
  identifier: Identifier
  /** The one that this service answers; of an answer of 256 KiB no more is kept. */
  challenge: Challenge | undefined
}

interface Challenge {
  type: ChallengeType
  url: string
  token: string | undefined
  /** Undefined unless the upstream has found it invalid. */
  failure: Described | undefined
}

type Described = ReturnType<typeof describeError>

function readAuthorization({ json }: Answer, url: string, wanted: ChallengeType): Authorization {
  const { status, identifier, challenges } = requireObject(json, 'an authorization')
  if (typeof status !== 'string' || !Array.isArray(challenges))
    throw new UpstreamNonsense('an authorization has no status or no challenges')
  const { type, value } = requireObject(identifier, 'an identifier')
  return {
    status,
    identifier: { type: type === 'ip' ? 'ip' : 'dns', value: String(value).toLowerCase() },
    challenge: challenges
      .map((one) => requireObject(one, 'a challenge'))
      .filter((one) => one['type'] === wanted)
      .slice(0, 1)
      .map((one) => ({
        type: wanted,
        url: absolute(String(one['url']), url),
        token: typeof one['token'] === 'string' ? one['token'] : undefined,
        failure: one['status'] === 'invalid' ? describeError(one['error']) : undefined,
      }))[0],
  }
}

export async function readAuthorizations(
  session: UpstreamSession,
  { authorizations }: UpstreamOrder,
  type: ChallengeType,
): Promise<Authorization[]> {
  return inGroups(authorizations, async (url) => readAuthorization(await session.post(url), url, type))
}

export type ChallengeType = 'dns-01' | 'http-01'

/**
 * The challenges to answer. A response is only published for a name of the order, whatever the upstream says.
 *
 * @returns a sentence when a name cannot be proven
 * @throws UpstreamNonsense
 */
export function responsesTo(
  authorizations: readonly Authorization[],
  type: ChallengeType,
  ordered: readonly Identifier[],
): Response[] | string {
  const names = new Set(ordered.map((one) => authorizedIdentifier(one).value))
  const responses: Response[] = []
  for (const { status, identifier, challenge } of authorizations) {
    if (status === 'valid') continue
    const { value: domain } = identifier
    if (!names.has(domain)) throw new UpstreamNonsense('an authorization is for a name that is not in the order')
    if (status !== 'pending') return `the authorization of ${domain} is ${status}`
    if (!challenge) return `the upstream offers no ${type} for ${domain}`
    if (challenge.token === undefined || !TOKEN.test(challenge.token))
      throw new UpstreamNonsense('a challenge has no token')
    responses.push({ challenge: challenge.url, domain, token: challenge.token })
  }
  return responses
}

/** Asks the upstream to look at what waits. After a crash some may have been looked at already. */
export async function answerChallenges(
  session: UpstreamSession,
  responses: readonly Response[],
  isRepeated: boolean,
): Promise<void> {
  const waits = async (challenge: string) => (await session.post(challenge)).json?.['status'] === 'pending'
  await inGroups(responses, async ({ challenge }) => {
    if (isRepeated && !(await waits(challenge))) return
    try {
      await session.post(challenge, {})
    } catch (error) {
      // The first try may have had its effect a moment ago; RFC 8555 names no error for that.
      if (!(error instanceof UpstreamProblem) || error.isPassing || (await waits(challenge))) throw error
    }
  })
}

/**
 * Errors that the upstream reports for challenges it has not found valid yet (RFC 8555 §8.2).
 *
 * @param repeats sends the response again, which asks for another validation
 */
export async function readComplaints(
  session: UpstreamSession,
  responses: readonly Response[],
  type: ChallengeType,
  repeats: boolean,
): Promise<Described[]> {
  const found = await inGroups(responses, async ({ challenge, domain }) => {
    const { status, error } = (await session.post(challenge)).json ?? {}
    if (status === 'valid' || error === undefined || error === null) return []
    if (repeats && status !== 'invalid')
      await session.post(challenge, {}).catch((refusal) => {
        // An upstream need not support repetitions; the order then waits as before.
        if (!(refusal instanceof UpstreamProblem)) throw refusal
      })
    const described = describeError(error)
    return [{ type: described.type, text: `${type} of ${domain}: ${described.text}` }]
  })
  return found.flat()
}

/** Why an order became invalid, for the log. */
export function failureOf(order: UpstreamOrder, authorizations: readonly Authorization[]): Described {
  for (const { identifier, challenge } of authorizations) {
    if (!challenge?.failure) continue
    const { type, text } = challenge.failure
    return { type, text: `${challenge.type} of ${identifier.value}: ${text}` }
  }
  return describeError(order.error)
}

function requireObject(value: unknown, what: string): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UpstreamNonsense(`${what} is no JSON object`)
  return value as JsonObject
}

async function inGroups<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))))
  return results
}
