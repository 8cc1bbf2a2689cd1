/** Refusals behind a good signature that cost another one are charged to their address. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { keyChange } from '../../../src/acme/accounts.ts'
import type { AcmeContext, AcmeRequest } from '../../../src/acme/endpoint.ts'
import { revokeCert } from '../../../src/acme/orders.ts'
import { AbuseBudget } from '../../../src/overload/abuse-budget.ts'
import { CERTIFICATE_KEYS, parseAccountKey } from '../../../src/shared/protocol/jwk.ts'
import { Problem } from '../../../src/shared/protocol/problem.ts'
import { newAccountKey, signedJws } from '../../support/acme-client.ts'

const address = '192.0.2.1'

function aBudget() {
  const nothing = () => undefined
  return new AbuseBudget({ isEnabled: true, events: { exhausted: nothing, refused: nothing }, clock: () => 1 })
}

/** How many are refused by `type` before the address has no budget left. */
async function failures(budget: AbuseBudget, type: string, failing: () => Promise<unknown>): Promise<number> {
  for (let count = 0; ; count++) {
    if (count > 200 || budget.isExhausted(address)) return count
    await assert.rejects(failing(), { type })
  }
}

describe('the budget of an address ends', () => {
  test('with a hundred key changes whose inner signature fails, also for an account that signs well (RFC 8555 §7.3.5)', async () => {
    const budget = aBudget()
    const key = newAccountKey()
    const url = 'https://acme.test/key-change'
    const header = { alg: key.alg, url, jwk: key.jwk }
    const inner = signedJws(key, header, { payload: {}, signature: (good) => Buffer.alloc(good.length, 7) })
    const signer = { account: { id: '1' }, provenFrom: address }
    const request = { signer, address, jws: { payload: Buffer.from(JSON.stringify(inner)), header: { url } } }
    const settings = { algorithms: ['ES256'], accountKeys: CERTIFICATE_KEYS }
    const change = () =>
      keyChange.handle(
        request as unknown as AcmeRequest<unknown, 'kid'>,
        { budget, settings } as unknown as AcmeContext,
      )
    assert.equal(await failures(budget, 'unauthorized', change), 101)
    signer.provenFrom = address
    await assert.rejects(change(), { type: 'rateLimited' })
  })

  test('with a hundred revocations without authority over the certificate (RFC 8555 §7.6)', async () => {
    const budget = aBudget()
    const signer = parseAccountKey(newAccountKey().jwk as Record<string, string>, CERTIFICATE_KEYS)
    const request = { signer, address, payload: { certificate: Buffer.alloc(1) } }
    const revoke = (type: 'unauthorized' | 'alreadyRevoked') => () => {
      const revocation = { revoke: () => Promise.reject(new Problem(type, 'no')) }
      return revokeCert.handle(
        request as unknown as AcmeRequest<unknown, 'either'>,
        { budget, revocation } as unknown as AcmeContext,
      )
    }
    assert.equal(await failures(budget, 'alreadyRevoked', revoke('alreadyRevoked')), 201)
    assert.equal(await failures(budget, 'unauthorized', revoke('unauthorized')), 101)
  })
})
