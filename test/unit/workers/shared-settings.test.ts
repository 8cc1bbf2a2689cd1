/** Settings that cross to the validation threads once: what comes out is what went in. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { placesOf, withoutShared, withShared } from '../../../workers/shared-settings.ts'

const dns = { resolvers: ['192.0.2.53'], zones: [{ zone: 'example' }] }
const networks = ['127.0.0.0/8']
const job = {
  type: 'http-01',
  identifier: { type: 'dns', value: 'host.example' },
  networks,
  dns,
  caa: { names: [{ name: 'a' }], dns },
}

test('what crosses holds places, at any depth, and nothing of the settings', () => {
  const sent = withoutShared(job, placesOf([dns, networks]))
  assert.doesNotMatch(JSON.stringify(sent), /192\.0\.2\.53|127\.0\.0\.0/)
  assert.match(JSON.stringify(sent), /host\.example/)
})

test('put together again it is the same job, with the very objects of the thread', () => {
  const there = structuredClone([dns, networks])
  const before = structuredClone(job)
  const arrived = withShared(structuredClone(withoutShared(job, placesOf([dns, networks]))), there)
  assert.deepEqual(arrived, job)
  assert.equal(arrived.dns, there[0])
  assert.equal(arrived.caa.dns, there[0])
  assert.deepEqual(job, before)
})

test('an equal object that is another one crosses with the job', () => {
  const other = structuredClone(dns)
  assert.deepEqual(withoutShared({ dns: other }, placesOf([dns])), { dns: other })
})
