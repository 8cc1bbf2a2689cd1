/** `describe`: which issuers there are, with their certificates, so that the front needs no copy of them. */

import type { Issuer } from '../issuers.ts'
import type { MethodHandler } from './method.ts'

export function describeMethod(version: string, issuers: ReadonlyMap<string, Issuer>): MethodHandler<'describe'> {
  const all = [...issuers.values()]
  const reply = {
    meta: {
      version,
      issuers: all.map(({ id, algorithm, chain, alternateChains }) => ({
        id,
        algorithm,
        chain: lengths(chain),
        // Left out when there are none, so that a front of the previous release understands the reply.
        ...(alternateChains.length > 0 && { alternates: alternateChains.map(lengths) }),
      })),
    },
    payload: Buffer.concat(all.flatMap(({ chain, alternateChains }) => [...chain, ...alternateChains.flat()])),
  }
  return () => reply
}

function lengths(chain: readonly Buffer[]): number[] {
  return chain.map(({ length }) => length)
}
