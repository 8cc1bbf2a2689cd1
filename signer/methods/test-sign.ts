/** `testSign`: makes a real but useless signature, to test key and audit chain. */

import { sha256Hex } from '../audit/line.ts'
import { TEST_MESSAGE } from '../protocol/methods.ts'
import { requireIssuer, type SigningService, signAndRecord } from '../signing.ts'
import type { MethodHandler } from './method.ts'

const TEST_MESSAGE_SHA256 = sha256Hex(TEST_MESSAGE)

export function testSignMethod(service: SigningService): MethodHandler<'testSign'> {
  return async ({ issuer: id, requester }, _payload, { deadlineAt }) => {
    const issuer = requireIssuer(service, id)
    const startedAt = performance.now()
    const record = { method: 'testSign' as const, serial: '', names: [], sha256: TEST_MESSAGE_SHA256, requester }
    const make = () => issuer.key.sign(TEST_MESSAGE)
    const payload = await signAndRecord(service, { issuer, make, record, deadlineAt })
    return { meta: { durationMs: performance.now() - startedAt }, payload }
  }
}
