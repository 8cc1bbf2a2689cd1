/** What a running signer refuses to a front that holds the secret and means harm, beyond what one TBSCertificate shows. */

import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { describe, test } from 'node:test'
import { CaError } from '../../src/ca/backend.ts'
import { leafTbs, makeAuthority, spkiOf } from './authority.ts'
import { useSigner } from './daemon.ts'

const timeoutMs = 60_000

describe('a front that was taken over', () => {
  const authorities = { first: makeAuthority(), second: makeAuthority() }
  const signer = useSigner(authorities)

  const sign = (tbs: Buffer, issuer: keyof typeof authorities = 'first') =>
    signer.backend.signCertificate(issuer, tbs, { timeoutMs, requester: 'test' })
  const isRefused = (signing: Promise<unknown>, sentence: RegExp) =>
    assert.rejects(signing, (error) => error instanceof CaError && !error.retryable && sentence.test(error.message))

  const serialNumber = Buffer.from('4123456789abcdef0123456789abcdef', 'hex')
  const once = leafTbs(authorities.first, { serialNumber })
  const other = leafTbs(authorities.first, { serialNumber, dnsNames: ['other.example.org'] })

  test('gets one certificate under a serial number, however often it asks (RFC 5280 §4.1.2.2)', async () => {
    await sign(once)
    await isRefused(sign(other), /the serial number 41[0-9a-f]+ has been signed with other content/)
    await sign(once)
    await sign(leafTbs(authorities.second, { serialNumber }), 'second')
  })

  test('gets no other one after a new start of the signer either', async () => {
    await signer.restart('SIGKILL')
    await isRefused(sign(other), /has been signed with other content/)
    await sign(once)
  })

  test('gets no certificate for the key of an issuer', async () => {
    for (const authority of Object.values(authorities)) {
      const spki = spkiOf(createPublicKey(authority.privateKey))
      await isRefused(sign(leafTbs(authorities.first, { spki })), /the subject key is that of issuer (?:first|second)$/)
    }
  })
})
