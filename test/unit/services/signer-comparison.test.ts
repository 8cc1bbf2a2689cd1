/** What a comparison counts. Signer and database are made up here; `test/acme/reconcile.test.ts` has real ones. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RecordedRevocations, RecordState, SignerRecords } from '../../../src/ca/signer-records.ts'
import { type ComparisonParts, FIRST, SignerComparison } from '../../../src/services/reconcile/signer-comparison.ts'
import type { IssuerRevocations } from '../../../src/store/signer-mark-store.ts'

const KEY = 'ab'.repeat(32)
const STATE: RecordState = {
  chain: 'cd'.repeat(16),
  certificates: { first: 0, last: 0 },
  revocations: { first: 1, last: 2 },
  lists: [],
}
/** What was told of since. */
const strange: string[] = []
const unused = () => assert.fail('not asked for')

/** A signer that nobody asks. */
const RECORDS: SignerRecords = {
  state: unused,
  serials: unused,
  certificates: unused,
  note: unused,
  decisions: unused,
  noteDecisions: unused,
  damage: unused,
  announce: unused,
  revocations: unused,
}

/** A database without any revocation. */
const MARKS: ComparisonParts['marks'] = {
  mark: unused,
  withoutCertificate: unused,
  missingRevocations: async <P extends IssuerRevocations>(pages: readonly P[]) => [...pages],
  lower: unused,
  noteBehind: unused,
  noteNothingMissing: unused,
  noteGivenUp: unused,
  givenUp: unused,
  acceptGivenUp: unused,
}

/** A signer with these pages of revocations, and a database without any of them. */
function aComparison(...pages: readonly (readonly RecordedRevocations[])[]): SignerComparison {
  return aComparisonWith({}, ...pages)
}

function aComparisonWith(
  over: Partial<ComparisonParts>,
  ...pages: readonly (readonly RecordedRevocations[])[]
): SignerComparison {
  const records: SignerRecords = {
    ...RECORDS,
    revocations: async ({ seq }) => ({
      lines: pages[seq] ?? [],
      last: { seq: seq + 1, part: 0 },
      more: seq + 1 < pages.length,
    }),
  }
  return new SignerComparison({
    records,
    marks: MARKS,
    crls: { raiseNumber: unused },
    restoration: {
      issuers: async () => ({
        byKey: new Map([[KEY, { fingerprints: [Buffer.alloc(32)], notAfter: new Date() }]]),
        certificates: [],
        keyOf: () => KEY,
      }),
      read: unused,
      record: unused,
      revocations: unused,
    },
    now: async () => new Date(),
    intentSeconds: 60,
    expiredAfterDays: undefined,
    onMissing: async () => undefined,
    onStrangeTimes: (serials) => strange.push(...serials),
    isStopping: () => false,
    ...over,
  })
}

const line = (...serials: string[]): RecordedRevocations => ({
  issuerId: 'default',
  issuerKey: KEY,
  entries: serials.map((serialNumber) => ({ serialNumber, revokedAt: new Date(0), reason: 4 })),
})

describe('a revocation that is recorded twice counts once: the first list after a start of the signer has all again', () => {
  test('on one page', async () => {
    const found = await aComparison([line('01', '02'), line('02', '03')]).run(STATE, FIRST, 'count')
    assert.equal(found.revocations, 3)
  })

  test('on two pages', async () => {
    const found = await aComparison([line('01', '02')], [line('02', '03')]).run(STATE, FIRST, 'count')
    assert.equal(found.revocations, 3)
  })
})

test('keyCompromise stays, whatever a list says that is recorded behind it', async () => {
  const compromised = { ...line('01'), entries: line('01').entries.map((one) => ({ ...one, reason: 1 })) }
  const reasons: number[] = []
  const marks = {
    ...MARKS,
    async missingRevocations<P extends IssuerRevocations>(pages: readonly P[]) {
      reasons.push(...pages.flatMap(({ entries }) => entries.map(({ reason }) => reason)))
      return [...pages]
    },
  }
  await aComparisonWith({ marks }, [compromised, line('01')]).run(STATE, FIRST, 'count')
  assert.deepEqual(reasons, [1])
})

describe('a revocation with a time that no clock has had', () => {
  const DAY_MS = 86_400_000
  for (const [what, time] of [
    ['is unreadable', Number.NaN],
    ['is 400 days ahead', Date.now() + 400 * DAY_MS],
  ] as const)
    test(`counts as of now where it ${what}, and is told of`, async () => {
      strange.length = 0
      const whole = line('0a', '0b')
      const entries = whole.entries.map((one, at) => ({ ...one, revokedAt: new Date(at === 0 ? time : Date.now()) }))
      const missing: string[] = []
      const comparison = aComparisonWith(
        { expiredAfterDays: 90, onMissing: async (_, serials) => missing.push(...serials) },
        [{ ...whole, entries }],
      )
      await comparison.run(STATE, FIRST, 'count')
      assert.deepEqual([missing, strange], [['0a', '0b'], ['0a']])
    })
})

describe('what has expired is decided by the slow clock: the mark passes it for good, and the clock of this host may be ahead', () => {
  const DAY_MS = 86_400_000
  const SIGNED_AT = new Date('2026-05-01T00:00:00Z')
  const now = async () => new Date(SIGNED_AT.getTime() + 7 * DAY_MS)

  test('a revocation comes back', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: SIGNED_AT.getTime() + 400 * DAY_MS })
    const entries = [{ serialNumber: '0a', revokedAt: SIGNED_AT, reason: 4 }]
    const comparison = aComparisonWith({ expiredAfterDays: 90, now }, [{ ...line(), entries }])
    assert.equal((await comparison.run(STATE, FIRST, 'count')).revocations, 1)
  })

  test('a certificate is looked for, and read by that time', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: SIGNED_AT.getTime() + 400 * DAY_MS })
    const signedAt = [SIGNED_AT.getTime() / 1000]
    const read: Date[] = []
    const comparison = aComparisonWith({
      expiredAfterDays: 90,
      now,
      records: {
        ...RECORDS,
        serials: async () => ({ sequences: [7], serialNumbers: ['0a'], signedAt, last: 7, more: false }),
      },
      marks: {
        ...({} as ComparisonParts['marks']),
        withoutCertificate: async (serials) => ({ missing: serials.map((_, place) => place), underWay: [] }),
      },
      restoration: {
        issuers: unused,
        read: async (_, at) => {
          read.push(at)
          return { found: [], expired: new Set(), givenUp: new Map() }
        },
        record: unused,
        revocations: unused,
      },
    })
    const state = { ...STATE, certificates: { first: 1, last: 7 }, revocations: { first: 1, last: 0 } }
    assert.equal((await comparison.run(state, FIRST, 'count')).certificates, 1)
    assert.deepEqual(read, [await now()])
  })
})

describe('what does not come back', () => {
  const LOST = { sequence: 7, serialNumber: '0abc', reason: 'the record is no certificate' }
  const state = { ...STATE, certificates: { first: 1, last: 8 }, revocations: { first: 1, last: 0 } }

  /** A signer with a line that is lost and one of an issuance under way. @param known what the database has as given up */
  function lost(known: readonly number[] = []) {
    const [remembered, told, missing]: [unknown[], unknown[], string[]] = [[], [], []]
    const comparison = aComparisonWith({
      records: {
        ...RECORDS,
        serials: async () => ({
          sequences: [7, 8],
          serialNumbers: ['0abc', '0def'],
          signedAt: [1e9, 1e9],
          last: 8,
          more: false,
        }),
      },
      marks: {
        ...({} as ComparisonParts['marks']),
        withoutCertificate: async (serials) => ({
          missing: serials.flatMap((serial, place) => (serial === '0abc' ? [place] : [])),
          underWay: serials.flatMap((serial, place) => (serial === '0def' ? [place] : [])),
        }),
        noteGivenUp: async (...noted) => {
          remembered.push(noted)
          return noted[1].filter(({ sequence }) => !known.includes(sequence))
        },
      },
      crls: { raiseNumber: async () => undefined },
      restoration: {
        issuers: unused,
        read: async (lines) => {
          assert.deepEqual(lines, [{ sequence: 7, signedAt: new Date(1e12), serial: '0abc' }])
          return { found: [], expired: new Set(), givenUp: new Map([[7, LOST]]) }
        },
        record: async ({ givenUp }) => void told.push(...givenUp.values()),
        revocations: unused,
      },
      onMissing: async (_, serials) => missing.push(...serials),
    })
    return { comparison, remembered, told, missing }
  }

  test('is remembered by its serial number, in the database, and told', async () => {
    const { comparison, remembered, told, missing } = lost()
    assert.equal((await comparison.run(state, FIRST, 'restore')).certificates, 1)
    assert.deepEqual(remembered, [[state.chain, [LOST]]])
    assert.deepEqual([told, missing], [[LOST], ['0abc']])
  })

  test('is told once, however many comparisons find it before the issuance beside it has ended', async () => {
    const { comparison, told, missing } = lost([7])
    assert.equal((await comparison.run(state, FIRST, 'restore')).certificates, 0)
    assert.deepEqual([told, missing], [[], []])
  })

  test('is missing where it is only counted', async () => {
    const { comparison, remembered } = lost([7])
    assert.equal((await comparison.run(state, FIRST, 'count')).certificates, 1)
    assert.deepEqual(remembered, [])
  })
})
