/** What a front makes of a signer that describes an issuer it cannot use, such as one of a later release. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { test } from 'node:test'
import pino from 'pino'
import { createCounters, type MethodHandlers } from '../../signer/signing.ts'
import { listen } from '../../signer/socket-server.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { makeAuthority } from './authority.ts'

const LIMITS = {
  connections: 4,
  requestsInFlight: 16,
  frameBytes: 1 << 20,
  handshakeTimeoutMs: 30_000,
  gracefulTimeoutMs: 1_000,
}

test('an issuer that is described and cannot be used is told once, and those of before stay', async () => {
  const { algorithm: known, certificate } = makeAuthority()
  const folder = temporaryFolder()
  const socketPath = path.join(folder, 'signer.sock')
  const secret = randomBytes(32)
  let described = 0
  let algorithm: string = known
  const describe = () => {
    described += 1
    const issuer = { id: 'default', algorithm, chain: [certificate.length] }
    return { meta: { version: '9', issuers: [issuer] }, payload: certificate }
  }
  const server = await listen({
    socketPath,
    secret,
    limits: LIMITS,
    counters: createCounters(),
    log: pino({ level: 'silent' }),
    // Nothing else is asked.
    handlers: { describe } as unknown as MethodHandlers,
  })
  const reasons: string[] = []
  const backend = new SignerBackend({
    socketPath,
    secret,
    onIssuersRejected: ({ message }) => reasons.push(message),
  })
  try {
    await until('the first description', () => backend.issuers().length > 0)
    algorithm = 'ML-DSA-44'
    const before = described
    await until('a reason', () => reasons.length > 0)
    await until('another description', () => described >= before + 2)
    assert.deepEqual(reasons, ['issuer default: unknown signature algorithm ML-DSA-44'])
    assert.equal(backend.issuers()[0]?.signatureAlgorithm, known)
  } finally {
    await backend.close()
    await server.drain()
  }
})
