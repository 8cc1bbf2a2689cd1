/** `describe`: which issuers there are, with their certificates, so that the front needs no copy of them. */

import type { Issuer } from '../issuers.ts'
import type { MethodHandler } from './method.ts'

export function describeMethod(version: string, issuers: ReadonlyMap<string, Issuer>): MethodHandler<'describe'> {
  const all = [...issuers.values()]
  const reply = {
    meta: {
      version,
      issuers: all.map(({ id, algorithm, chain }) => ({ id, algorithm, chain: chain.map(({ length }) => length) })),
    },
    payload: Buffer.concat(all.flatMap(({ chain }) => chain)),
  }
  return () => reply
}
