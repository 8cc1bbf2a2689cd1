/**
 * The action of each step of an upstream order; order-steps.ts decides what follows.
 *
 * An action answers with an event, with a look that found nothing new, or with the certificate.
 */

import { createHash } from 'node:crypto'
import type { UpstreamOrderEvent } from '../../domain/states.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { decodePem } from '../../shared/pki/pem.ts'
import { keyAuthorization } from '../../shared/protocol/challenge.ts'
import type { ProblemType } from '../../shared/protocol/problem.ts'
import { renderCertId } from '../../shared/protocol/renewal-info.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import type { IssuanceRequest, StepOptions } from '../csr-backend.ts'
import type { ChallengeHandler, ChallengeResponse } from './challenge-handler.ts'
import type { OrderState, Response } from './order-steps.ts'
import { type Answer, isPassing, type UpstreamSession } from './upstream-client.ts'
import {
  answerChallenges,
  type ChallengeType,
  failureOf,
  readAuthorizations,
  readComplaints,
  readOrder,
  responsesTo,
  type UpstreamOrder,
} from './upstream-order.ts'
import { UpstreamNonsense, UpstreamProblem } from './upstream-problem.ts'

export interface ActionContext {
  session: UpstreamSession
  handler: ChallengeHandler
  challengeType: ChallengeType
  request: IssuanceRequest
  step: StepOptions
  /** Reports a fault that ends no order. */
  note(message: string, error: unknown): void
}

export type Outcome =
  | { event: UpstreamOrderEvent; changes?: Partial<OrderState>; waitMs?: number }
  /** Repeats the step. */
  | { again: true; changes?: Partial<OrderState>; waitMs?: number }
  | { issued: readonly (readonly Buffer[])[] }

type Action = (state: OrderState, context: ActionContext) => Promise<Outcome>

/** The order names no profile. */
const DEFAULT_PROFILE = 'default'
/** How often a script is asked to withdraw a response. */
const REMOVE_TRIES = 3
const MAX_ALTERNATES = 4
/** After so many looks at a waiting order, failed challenges are answered again: about four seconds. */
const LOOKS_OF_A_REPETITION = 5
/** Against an upstream that says `Retry-After: 0`. */
const SHORTEST_LOOK_MS = 250
/** Against an upstream whose orders stay ready. */
const FINALIZE_AGAIN_MS = 5_000

/** Step `order`. @returns the URL of the new upstream order */
export async function createOrder({ session, request }: ActionContext): Promise<string | ReturnType<typeof failed>> {
  const { newOrder, profiles, renewalInfo } = await session.directory()
  // Another profile than the client has chosen would be another kind of certificate.
  if (request.profile !== DEFAULT_PROFILE && !profiles.includes(request.profile))
    return failed('serverInternal', `the upstream has no profile ${request.profile}`)
  const replaces = renewalInfo === undefined ? undefined : request.replaces
  const payload = {
    identifiers: request.identifiers.map(({ type, value }) => ({ type, value })),
    ...(profiles.includes(request.profile) && { profile: request.profile }),
    ...requestedValidity(request),
  }
  const post = (more: object) => session.post(newOrder, { ...payload, ...more })
  const { location } = await (replaces === undefined
    ? post({})
    : // The predecessor may be of another CA, or replaced already: RFC 9773 §5 makes that an error.
      post({ replaces }).catch((error) => {
        if (isPassing(error) || !(error instanceof UpstreamProblem)) throw error
        return post({})
      }))
  if (location === undefined) throw new UpstreamNonsense('a new order has no URL')
  return location
}

/** An upstream that does not allow a period refuses the order, as it must (RFC 8555 §7.4). */
function requestedValidity({ requested: { notBefore, notAfter } }: IssuanceRequest): object {
  return {
    ...(notBefore && { notBefore: renderTimestamp(notBefore) }),
    ...(notAfter && { notAfter: renderTimestamp(notAfter) }),
  }
}

/** @returns undefined for a certificate without an authorityKeyIdentifier */
export function certIdOf(der: Buffer): string | undefined {
  const { authorityKeyIdentifier: keyIdentifier, serialNumber } = parseCertificate(der).tbs
  return keyIdentifier && renderCertId({ keyIdentifier, serialNumber })
}

async function currentOrder({ order }: OrderState, { session, request }: ActionContext): Promise<UpstreamOrder> {
  return readOrder(await session.post(order), order, request.identifiers.length)
}

const inspect: Action = async (state, context) => {
  const { session, request, challengeType } = context
  const order = await currentOrder(state, context)
  if (order.status !== 'pending') return { event: 'proven' }
  const authorizations = await readAuthorizations(session, order, challengeType)
  const responses = responsesTo(authorizations, challengeType, request.identifiers)
  if (typeof responses === 'string') return failed('rejectedIdentifier', responses)
  return responses.length === 0 ? { event: 'proven' } : { event: 'unproven', changes: { responses } }
}

/** One response a step; the record of what was placed is committed between two. */
const place: Action = async ({ responses, placed }, context) => {
  const { handler, step } = context
  const response = responses[placed]
  if (!response) return { event: 'placed', waitMs: handler.propagationMs }
  await handler.place(responseOf(response, context), step.signal)
  const isLast = placed + 1 === responses.length
  const changes = { placed: placed + 1 }
  return isLast ? { event: 'placed', changes, waitMs: handler.propagationMs } : { again: true, changes, waitMs: 0 }
}

const answer: Action = async ({ responses, failures }, { session, step }) => {
  await answerChallenges(session, responses, step.isRepeated || failures > 0)
  return { event: 'answered' }
}

const awaitReady: Action = async (state, context) => {
  const order = await currentOrder(state, context)
  switch (order.status) {
    case 'ready':
      return { event: 'ready' }
    case 'pending':
      if (state.looks % LOOKS_OF_A_REPETITION === LOOKS_OF_A_REPETITION - 1) await complaintsOf(state, context, true)
      return lookAgain(order)
    case 'invalid':
      return invalidOrder(order, context)
    default:
      return { event: 'finalized' }
  }
}

function complaintsOf({ responses }: OrderState, { session, challengeType }: ActionContext, repeats: boolean) {
  return readComplaints(session, responses, challengeType, repeats)
}

/** Fails an order that was not ready in time, with the upstream's own reason if it gave one. */
export async function lateOrder(reason: string, state: OrderState, context: ActionContext): Promise<Outcome> {
  // The upstream's reason is an addition; the order fails without it, too.
  const [complaint] = await complaintsOf(state, context, false).catch(() => [])
  return complaint
    ? failed(problemFor(complaint.type), `${reason}; ${complaint.text}`)
    : failed('serverInternal', reason)
}

/** The state is committed before: a repetition reads what became of the first try. */
const finalize: Action = async (state, context) => {
  const { session, request, step } = context
  const order = await currentOrder(state, context)
  if (order.status === 'invalid') return invalidOrder(order, context)
  if (order.status === 'processing' || order.status === 'valid') return { event: 'finalized' }
  if (step.isAbandoned) return failed('serverInternal', 'the order has ended before it was finalized')
  try {
    await session.post(order.finalize, { csr: request.csr.toString('base64url') })
    return { event: 'finalized' }
  } catch (error) {
    // RFC 8555 §7.4: the order has moved on since it was read, or is not ready yet after all.
    if (error instanceof UpstreamProblem && error.type === 'orderNotReady') return { again: true }
    throw error
  }
}

const clean: Action = async ({ responses, removed, failures }, context) => {
  const { handler, step, note } = context
  const response = responses[removed]
  if (!response) return { event: 'cleaned' }
  try {
    await handler.remove(responseOf(response, context), step.signal)
  } catch (error) {
    step.signal.throwIfAborted()
    if (failures + 1 < REMOVE_TRIES) return { again: true, changes: { failures: failures + 1 } }
    note(`the response to a challenge of ${response.domain} was left behind`, error)
  }
  const isLast = removed + 1 === responses.length
  const changes = { removed: removed + 1, failures: 0 }
  return isLast ? { event: 'cleaned', changes } : { again: true, changes, waitMs: 0 }
}

const collect: Action = async (state, context) => {
  const order = await currentOrder(state, context)
  switch (order.status) {
    case 'valid':
      return { issued: await downloadChains(order, context) }
    case 'invalid':
      return invalidOrder(order, context)
    case 'ready':
      if (context.step.isAbandoned) return failed('serverInternal', 'the order has ended before it was finalized')
      // RFC 8555 §7.4 lets it be ready after finalize, too.
      return { event: 'ready', waitMs: FINALIZE_AGAIN_MS }
    default:
      return lookAgain(order)
  }
}

export const ACTIONS = { inspect, place, answer, await: awaitReady, finalize, clean, collect } as const

export const failed = (problem: ProblemType, reason: string) =>
  ({ event: 'failed', changes: { failure: { problem, reason } } }) as const

/** Problems that say something about the client's request; any other one is between us and the upstream. */
const PASSED_ON: readonly string[] = ['badCSR', 'caa', 'rejectedIdentifier', 'unsupportedIdentifier']

/** The type that a client may see. */
export function problemFor(type: string | undefined): ProblemType {
  return type !== undefined && PASSED_ON.includes(type) ? (type as ProblemType) : 'serverInternal'
}

/** Whether another request may fare better. Any other problem is one of our account or of the upstream. */
export function isAboutRequest({ type }: UpstreamProblem): boolean {
  return type !== undefined && [...PASSED_ON, 'compound', 'dns', 'invalidProfile', 'malformed'].includes(type)
}

function lookAgain({ retryAfterMs }: UpstreamOrder): Outcome {
  return retryAfterMs === undefined
    ? { again: true }
    : { again: true, waitMs: Math.max(retryAfterMs, SHORTEST_LOOK_MS) }
}

async function invalidOrder(order: UpstreamOrder, { session, challengeType }: ActionContext): Promise<Outcome> {
  // The order may carry the reason itself.
  const authorizations = await readAuthorizations(session, order, challengeType).catch(() => [])
  const { type, text } = failureOf(order, authorizations)
  return failed(problemFor(type), `the upstream order is invalid: ${text}`)
}

/** The chain of the leaf, then further ones without the leaf. */
async function downloadChains(order: UpstreamOrder, { session }: ActionContext): Promise<Buffer[][]> {
  if (order.certificate === undefined) throw new UpstreamNonsense('a valid order has no certificate')
  const first = await session.post(order.certificate)
  const alternates: Buffer[][] = []
  for (const url of first.alternates.slice(0, MAX_ALTERNATES))
    alternates.push(chainOf(await session.post(url)).slice(1))
  return [chainOf(first), ...alternates.filter((chain) => chain.length > 0)]
}

function chainOf({ body }: Answer): Buffer[] {
  const text = body.toString('utf8')
  try {
    const blocks = decodePem(text)
    if (blocks.length > 0 && blocks.every(({ label }) => label === 'CERTIFICATE')) return blocks.map(({ der }) => der)
  } catch {
    // The error below is clearer: the parser names lines of a text that the log does not show.
  }
  throw new UpstreamNonsense('a certificate is no PEM chain')
}

/** Both methods take the key authorization (RFC 8555 §8.1), dns-01 its digest. */
function responseOf({ domain, token }: Response, { session }: ActionContext): ChallengeResponse {
  const authorization = keyAuthorization(token, session.key.thumbprint)
  return {
    domain,
    token,
    keyAuthorization: authorization,
    recordName: `_acme-challenge.${domain}`,
    recordValue: createHash('sha256').update(authorization).digest('base64url'),
  }
}
