/** `describe`: the issuers with their certificates, so that the front needs no copy. */

import type { Issuer } from '../issuers.ts'
import type { SigningService } from '../signing.ts'
import type { MethodHandler } from './method.ts'

/** @param service its `issuers` change when the configuration is reread */
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
