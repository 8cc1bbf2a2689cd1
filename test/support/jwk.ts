/**
 * The JWK of a key that this process has generated.
 *
 * Node 20 can deadlock when it exports a key as JWK while garbage collection ends the job that generated the very key: both
 * want its lock. A key that was read back from its DER form has no such job.
 */

import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'

export function publicJwk(publicKey: KeyObject): JsonWebKey {
  const key = publicKey.export({ format: 'der', type: 'spki' })
  return createPublicKey({ key, format: 'der', type: 'spki' }).export({ format: 'jwk' })
}
