/** Methods that tell what the signer is and whether it works: `describe`, `health`, `testSign`. */

import { sha256Hex } from '../audit/line.ts'
import type { Issuer } from '../issuers.ts'
import { type MethodResult, TEST_MESSAGE } from '../protocol/methods.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'
import type { MethodHandler } from './method-handler.ts'

/**
 * The issuers with their certificates, so that the front needs no copy.
 * @param service its `issuers` change when the configuration is reread
 */
export function describeMethod(version: string, service: Pick<SigningService, 'issuers'>): MethodHandler<'describe'> {
  return () => describeIssuers(version, [...service.issuers.values()])
}

function describeIssuers(version: string, all: readonly Issuer[]) {
  return {
    meta: {
      version,
      issuers: all.map(({ id, algorithm, chain, alternateChains }) => ({
        id,
        algorithm,
        chain: lengths(chain),
        // Omitted when empty, because a front of the previous release would reject it.
        ...(alternateChains.length > 0 && { alternates: alternateChains.map(lengths) }),
      })),
    },
    payload: Buffer.concat(all.flatMap(({ chain, alternateChains }) => [...chain, ...alternateChains.flat()])),
  }
}

function lengths(chain: readonly Buffer[]): number[] {
  return chain.map(({ length }) => length)
}

/** Counters, and token states from a question to each session. Only `testSign` shows that a key really signs. */
export function healthMethod(service: SigningService): MethodHandler<'health'> {
  const { counters, audit } = service
  return () => {
    for (const { key } of service.issuers.values()) key.ping?.()
    const tokens = tokenStates([...service.issuers.values()])
    return {
      meta: {
        signing: audit.failure === undefined,
        uptimeSeconds: Math.round(performance.now() - counters.startedAt) / 1000,
        signatures: counters.signatures,
        refusals: counters.refusals,
        inFlight: counters.inFlight,
        connections: counters.connections,
        auditSequence: audit.sequence,
        auditSyncs: audit.syncs,
        ...(counters.lastError && { lastError: counters.lastError }),
        // Omitted when empty, because a front of the previous release would reject it.
        ...(tokens.length > 0 && { tokens }),
      },
    }
  }
}

function tokenStates(issuers: readonly Issuer[]): NonNullable<MethodResult<'health'>['tokens']> {
  return issuers.flatMap(({ id, key: { state } }) =>
    state === undefined
      ? []
      : [
          {
            issuer: id,
            status: state.status,
            since: state.since.toISOString(),
            ...(state.status !== 'ready' && { reason: state.reason }),
          },
        ],
  )
}

const TEST_MESSAGE_SHA256 = sha256Hex(TEST_MESSAGE)

/** Makes a real but useless signature, to test key and audit chain. */
export function testSignMethod(service: SigningService): MethodHandler<'testSign'> {
  return async ({ issuer: id, requester }, _payload, { deadlineAt }) => {
    const issuer = requireIssuer(service, id)
    const startedAt = performance.now()
    const record = { method: 'testSign' as const, serial: '', names: [], sha256: TEST_MESSAGE_SHA256, requester }
    const make = () => issuer.key.sign(TEST_MESSAGE)
    const { upkeepBucket: bucket } = issuer
    const { signature: payload } = await signAndRecord(service, { issuer, bucket, make, record, deadlineAt })
    return { meta: { durationMs: performance.now() - startedAt }, payload }
  }
}
