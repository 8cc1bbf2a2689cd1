/** The steps of a test of a backend, and the request that it makes. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CaError } from '../../../src/ca/backend.ts'
import type { CsrBackend, IssuanceStep, StepOptions } from '../../../src/ca/csr-backend.ts'
import { SUBJECT_KEY_TYPES } from '../../../src/domain/certificate-profile.ts'
import { issueForTest, makeTestRequest } from '../../../src/services/test-issuance.ts'
import { issuancePolicy } from '../../../src/settings/issuance-settings.ts'
import { problemDocument } from '../../../src/shared/protocol/problem.ts'
import { aRequest } from '../../support/cas/csr-backend.ts'
import { aConfig } from '../config/support.ts'

const ISSUED: IssuanceStep = { status: 'issued', chain: [] }
const REFUSED: IssuanceStep = {
  status: 'refused',
  reason: 'by the script',
  problem: problemDocument('serverInternal', 'refused'),
}
const failing = (mayHaveIssued: boolean) => (): never => {
  throw new CaError('lost', { retryable: true, mayHaveIssued, retryAfterMs: 0 })
}

describe('the steps of a test', () => {
  /** One function for each step; the last one goes on for ever. */
  function scripted(...script: ((step: StepOptions) => IssuanceStep)[]) {
    const asked: string[] = []
    const backend: CsrBackend = {
      name: 'scripted',
      stepTimeoutMs: 30_000,
      async advance(_request, state, step) {
        asked.push(
          `${JSON.stringify(state) ?? '-'}${step.isRepeated ? ' again' : ''}${step.isAbandoned ? ' late' : ''}`,
        )
        const next = script.length > 1 ? script.shift() : script[0]
        return (next as (step: StepOptions) => IssuanceStep)(step)
      },
      async revoke() {},
      async checkHealth() {},
      async close() {},
    }
    const failures: string[] = []
    const run = async (timeoutMs: number) =>
      issueForTest(backend, await aRequest(['a.test']), {
        timeoutMs,
        onFailure: ({ message }) => failures.push(message),
      })
    return { asked, failures, run }
  }
  const pending = (mayHaveIssued: boolean) => (): IssuanceStep => ({
    status: 'pending',
    state: { n: 1 },
    retryAfterMs: 10,
    mayHaveIssued,
  })

  test('a state goes to the next step', async () => {
    const { asked, run } = scripted(pending(true), () => ISSUED)
    assert.equal((await run(60_000)).status, 'issued')
    assert.deepEqual(asked, ['-', '{"n":1}'])
  })

  test('after a lost answer the same is asked for again, as repeated', async () => {
    const { asked, failures, run } = scripted(failing(true), failing(false), () => ISSUED)
    await run(60_000)
    assert.deepEqual(asked, ['-', '- again', '- again'])
    assert.deepEqual(failures, ['lost', 'lost'])
  })

  test('what has not begun in its time is given up', async () => {
    const { run } = scripted(failing(false))
    await assert.rejects(run(0.2), ({ message, mayHaveIssued }: CaError) => {
      assert.match(message, /^no certificate within 0 seconds$/)
      return !mayHaveIssued
    })
  })

  test('what may have been issued is fetched when its time is over', async () => {
    const { asked, run } = scripted(pending(true), ({ isAbandoned }) => (isAbandoned ? REFUSED : pending(true)()))
    assert.equal((await run(200)).status, 'refused')
    assert.equal(asked.at(-1), '{"n":1} late')
  })

  test('a final error ends it', async () => {
    const { asked, run } = scripted(() => {
      throw new CaError('never', { retryable: false })
    })
    await assert.rejects(run(60_000), /^CaError: never$/)
    assert.equal(asked.length, 1)
  })
})

describe('the request of a test', () => {
  const policy = issuancePolicy(aConfig(), []).csr
  for (const keyType of SUBJECT_KEY_TYPES)
    test(`has a ${keyType} key where the profile takes no other`, () => {
      const wide = {
        signatureAlgorithms: [...policy.signatureAlgorithms, 'Ed25519' as const],
        key: { ...policy.key, curves: ['P-256', 'P-384', 'P-521'] as const },
      }
      const { csr, identifiers, ...made } = makeTestRequest('a.test', { keyTypes: [keyType] }, wide)
      assert.equal(made.keyType, keyType)
      assert.deepEqual([csr.dnsNames, identifiers], [['a.test'], [{ type: 'dns', value: 'a.test' }]])
    })

  test('takes another key where the policy of CSRs forbids the first', () => {
    const strict = { ...policy, key: { ...policy.key, curves: ['P-384'] as const } }
    assert.equal(makeTestRequest('a.test', { keyTypes: ['P-256', 'P-384'] }, strict).keyType, 'P-384')
    assert.throws(() => makeTestRequest('a.test', { keyTypes: ['P-256'] }, strict), /P-256/)
  })
})
