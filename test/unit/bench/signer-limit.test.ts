import assert from 'node:assert/strict'
import { cpus } from 'node:os'
import { describe, test } from 'node:test'
import { nameLimit, type SignerFigures } from '../../../bench/signer/measure.ts'

const QUIET: SignerFigures = {
  perSecond: 1000,
  p50Ms: 1,
  p99Ms: 2,
  signerMicros: 100,
  clientMicros: 20,
  mainThread: 0.2,
  otherThreads: 0.3,
  machine: 0.5,
}

describe('what limits a signer', () => {
  const CASES: [string, Partial<SignerFigures>, number | undefined, RegExp][] = [
    ['a busy JavaScript thread', { mainThread: 0.95 }, 16, /JavaScript thread/],
    ['sessions that are never idle', { otherThreads: 0.97 }, 1, /^1 busy session$/],
    ['more of them', { otherThreads: 3.8 }, 4, /^4 busy sessions$/],
    ['one session that waits to be used', { otherThreads: 0.5 }, 1, /way to and from the one session/],
    ['sessions that wait for each other', { otherThreads: 1.1 }, 4, /waits in the token's library/],
    ['a client that cannot keep up', { clientMicros: 900 }, 4, /bench itself/],
    ['slow key files', { otherThreads: 1.5 }, undefined, /threads for key files/],
    ['fast key files', { mainThread: 0.6, otherThreads: 0.05 }, undefined, /disk of the audit chain/],
    ['neighbours', { machine: 0.99, mainThread: 0.1, otherThreads: 0.1 }, 4, /others on this machine/],
    ['a machine that has no more', { machine: 0.99, otherThreads: cpus().length - 0.3 }, 16, /cores of the machine/],
  ]
  for (const [what, change, sessions, limit] of CASES) {
    test(`is ${what}`, () => assert.match(nameLimit({ ...QUIET, ...change }, sessions), limit))
  }
})
