/** The chain of the audit log on a real database: what verification finds, and what retention may cut. */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, type TestContext, test } from 'node:test'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { verifyAuditLog } from '../../src/admin/audit/audit-verification.ts'
import { AuditWatch, cutAuditLog } from '../../src/admin/audit/audit-watch.ts'
import { parseHead, renderHead } from '../../src/domain/audit-chain.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { withQuery } from '../support/revoked.ts'

const KEY = Buffer.alloc(32, 7)
const AUTHOR = { userId: undefined, ipAddress: '192.0.2.1', operator: 'root' }
const FAR = new Date('2999-01-01')

describe('the chain of the audit log', () => {
  let database: TestDatabase
  let db: DatabasePool
  before(async () => {
    database = await testDatabase()
    db = await openCheckedDatabase(settingsFor(database.connection, 2))
  })
  after(async () => {
    await db.end()
    await database.drop()
  })

  /** As somebody with every right in the database, but without the key. */
  const tamper = (...statements: string[]) =>
    withQuery(database.connection, async (query) => {
      await query('ALTER TABLE admin_audit_log DISABLE TRIGGER USER')
      for (const statement of statements) await query(statement)
      await query('ALTER TABLE admin_audit_log ENABLE TRIGGER USER')
    })
  const faults = async (head?: string, key = KEY) => {
    const heads = (head?.split(',') ?? []).flatMap((one) => parseHead(one) ?? [])
    return (await verifyAuditLog(db, key, heads)).faults
  }
  const cut = (before: Date) => cutAuditLog({ db, key: KEY, audit: new AuditLog(db, KEY) }, before)
  const record = async (count: number) => {
    const audit = new AuditLog(db, KEY)
    for (let i = 0; i < count; i++) await audit.record(AUTHOR, 'maintenance.set', { b: i, a: { d: 1.5, c: ['ü'] } })
  }

  beforeEach(async () => {
    await tamper(
      'DELETE FROM admin_audit_log',
      "UPDATE admin_audit_head SET sequence = 0, mac = '', cut_sequence = 0, cut_mac = '', cut_seal = NULL",
    )
    await record(6)
  })

  test('an untouched log is whole, and so is an empty one', async () => {
    const verdict = await verifyAuditLog(db, KEY, [])
    assert.deepEqual([verdict.entries, verdict.head.sequence, verdict.faults], [6, 6, []])
    assert.deepEqual(await faults(renderHead(verdict.head)), [])
    await tamper('DELETE FROM admin_audit_log', "UPDATE admin_audit_head SET sequence = 0, mac = ''")
    assert.deepEqual(await faults(), [])
  })

  test('entries of many at once are one chain', async () => {
    const audit = new AuditLog(db, KEY)
    await Promise.all(Array.from({ length: 20 }, () => audit.record(AUTHOR, 'auth.login')))
    assert.deepEqual(await faults(), [])
  })

  const changes: [string, RegExp, ...string[]][] = [
    ['a change', /^entry 3 was changed/, "UPDATE admin_audit_log SET ip_address = '::1' WHERE sequence = 3"],
    ['a change of details', /^entry 3 was/, `UPDATE admin_audit_log SET details = '{"b":9}' WHERE sequence = 3`],
    ['a later time', /^entry 3 was/, "UPDATE admin_audit_log SET created_at = created_at + '1 s' WHERE sequence = 3"],
    ['a removal', /^entry 3 is missing/, 'DELETE FROM admin_audit_log WHERE sequence = 3'],
    [
      'a removal whose followers move up',
      /^entry 3 was changed, or moved/,
      'DELETE FROM admin_audit_log WHERE sequence = 3',
      'UPDATE admin_audit_log SET sequence = -sequence WHERE sequence > 3',
      'UPDATE admin_audit_log SET sequence = -sequence - 1 WHERE sequence < 0',
    ],
    [
      'another order',
      /^entry 3 was changed, or moved/,
      'UPDATE admin_audit_log SET sequence = -3 WHERE sequence = 3',
      'UPDATE admin_audit_log SET sequence = 3 WHERE sequence = 4',
      'UPDATE admin_audit_log SET sequence = 4 WHERE sequence = -3',
    ],
    ['a cut tail', /^the entries 5 to 6 are missing at the end/, 'DELETE FROM admin_audit_log WHERE sequence > 4'],
    ['a removed beginning', /^the entries 1 to 2 are missing/, 'DELETE FROM admin_audit_log WHERE sequence < 3'],
    [
      'an invented cut',
      /^the cut at 2 was not made by retention/,
      'DELETE FROM admin_audit_log WHERE sequence < 3',
      `UPDATE admin_audit_head SET cut_sequence = 2, cut_seal = 'x',
              cut_mac = (SELECT substr(mac, 1) FROM admin_audit_log WHERE sequence = 3)`,
    ],
    [
      'an added entry',
      /^entry 7 was/,
      `INSERT INTO admin_audit_log SELECT 7, gen_random_uuid(), user_id, action, target_user_id, details, ip_address,
              created_at, mac FROM admin_audit_log WHERE sequence = 6`,
    ],
  ]
  for (const [name, expected, ...statements] of changes)
    test(`${name} is found`, async () => {
      await tamper(...statements)
      assert.match((await faults()).join('\n'), expected)
    })

  test('entries that a fail-over lost and that are written back are told with their window, and the log is whole', async () => {
    assert.deepEqual((await verifyAuditLog(db, KEY, [])).writtenBack, undefined)
    const audit = new AuditLog(db, KEY)
    const writeBack = (...lost: [sequence: number, at: string][]) =>
      audit.transaction(AUTHOR, async (_tx, note) => {
        for (const [sequence, at] of lost)
          note('database.lost_entry', { sequence, at, mac: 'ab'.repeat(32), action: 'user.create', by: 'alice' })
      })
    await writeBack([5, '2026-03-01T21:04:12.300Z'], [6, '2026-03-01T21:04:59.000Z'], [8, '2026-03-01T21:05:40.000Z'])
    await writeBack([7, '2026-03-02T10:00:00.000Z'])
    await record(1)
    await writeBack([8, 'no time'])
    const { faults: found, writtenBack } = await verifyAuditLog(db, KEY, [])
    assert.deepEqual(found, [])
    assert.equal(writtenBack?.entries, 5)
    const spans = writtenBack?.spans.map((sentence) => sentence.replace(/ at \d{4}-\S+ \S+ UTC/, ' at NOW'))
    assert.deepEqual(spans, [
      '3 entries, 5 to 8, of 2026-03-01 21:04:12 UTC to 2026-03-01 21:05:40 UTC, were lost by a fail-over and are written back as 7 to 9 at NOW',
      'entry 7, of 2026-03-02 10:00:00 UTC, was lost by a fail-over and is written back as 10 at NOW',
      'entry 8 was lost by a fail-over and is written back as 12 at NOW',
    ])
  })

  test('a noted head that a fail-over lost is explained by the entry that was written back, and no other is', async () => {
    const mac = 'cd'.repeat(32)
    await new AuditLog(db, KEY).record(AUTHOR, 'database.lost_entry', { sequence: 6, mac, at: new Date() })
    assert.deepEqual(await faults(`6:${mac}`), [])
    assert.deepEqual(await faults(`6:${'ce'.repeat(32)}`), ['entry 6 is not the one of the noted head'])
    assert.deepEqual(await faults(`8:${mac}`), ['entry 8 is missing at the end'])
    for (const sequence of [8, 20]) {
      // The first has its own number again.
      await new AuditLog(db, KEY).record(AUTHOR, 'database.lost_entry', { sequence, mac, at: new Date() })
      assert.deepEqual(await faults(`${sequence}:${mac}`), [])
    }
  })

  test('of many spans that were written back twenty are told, and all entries are counted', async () => {
    const audit = new AuditLog(db, KEY)
    await audit.transaction(AUTHOR, async (_tx, note) => {
      for (let at = 0; at < 25; at++) note('database.lost_entry', { sequence: 100 - at, at: new Date() })
    })
    const { writtenBack } = await verifyAuditLog(db, KEY, [])
    assert.deepEqual([writtenBack?.entries, writtenBack?.spans.length], [25, 20])
  })

  test('a cut tail whose head was moved back is found by a head noted elsewhere', async () => {
    const { head } = await verifyAuditLog(db, KEY, [])
    await tamper(
      'DELETE FROM admin_audit_log WHERE sequence > 4',
      'UPDATE admin_audit_head SET sequence = 4, mac = (SELECT mac FROM admin_audit_log WHERE sequence = 4)',
    )
    assert.deepEqual(await faults(), [])
    assert.match((await faults(renderHead(head))).join('\n'), /^the entries 5 to 6 are missing at the end/)
    await record(2)
    assert.match((await faults(renderHead(head))).join('\n'), /^entry 6 is not the one of the noted head/)
  })

  test('another key is named as such', async () => {
    assert.match((await faults(undefined, Buffer.alloc(32, 8))).join('\n'), /^no entry fits: the key/)
  })

  test('ordinary statements neither change nor delete entries', async () => {
    await withQuery(database.connection, async (query) => {
      for (const statement of [
        "UPDATE admin_audit_log SET action = 'x'",
        'DELETE FROM admin_audit_log',
        'TRUNCATE admin_audit_log',
      ])
        await assert.rejects(query(statement), /append-only/)
    })
  })

  test('retention deletes what is old, says so, and the rest verifies', async () => {
    const { head } = await verifyAuditLog(db, KEY, [])
    await tamper("UPDATE admin_audit_log SET created_at = '2020-01-01' WHERE sequence <= 4")
    assert.equal(await cut(new Date('2021-01-01')), 4)
    const verdict = await verifyAuditLog(db, KEY, [head])
    assert.deepEqual([verdict.entries, verdict.cutSequence, verdict.faults], [3, 4, []])
    await withQuery(database.connection, async (query) => {
      const [entry] = await query("SELECT details FROM admin_audit_log WHERE action = 'audit.cut'")
      assert.deepEqual(entry?.details, { entries: 4, last_sequence: 4, before: '2021-01-01T00:00:00.000Z' })
    })
    assert.equal(await cut(new Date('2021-01-01')), 0)
    assert.equal((await verifyAuditLog(db, KEY, [])).head.sequence, 7)
  })

  test('an old entry behind a young one stays, for the chain has no holes', async () => {
    await tamper("UPDATE admin_audit_log SET created_at = '2020-01-01' WHERE sequence IN (1, 2, 5)")
    assert.equal(await cut(new Date('2021-01-01')), 2)
  })

  test('retention of everything leaves its own entry', async () => {
    assert.equal(await cut(FAR), 6)
    const verdict = await verifyAuditLog(db, KEY, [])
    assert.deepEqual([verdict.entries, verdict.head.sequence, verdict.faults], [1, 7, []])
  })

  describe('watched while the service runs', () => {
    let told: string[]
    let watch: AuditWatch
    beforeEach(async () => {
      told = []
      const events = {
        missing: (fault: string) => told.push(fault),
        found: (wentBack?: string) => told.push(wentBack ? `went back: ${wentBack}` : 'found'),
      }
      watch = new AuditWatch({ db, key: KEY, events })
      await watch.look()
    })
    /** An alarm waits for the entry of a reconciliation. */
    const look = async () => {
      for (let looks = 0; looks < 6; looks++) await watch.look()
    }
    const cutBack = (sequence: number) =>
      tamper(
        `DELETE FROM admin_audit_log WHERE sequence > ${sequence}`,
        `UPDATE admin_audit_head SET sequence = ${sequence}, mac = (SELECT mac FROM admin_audit_log WHERE sequence = ${sequence})`,
      )

    test('a cut tail is told once, also when new entries follow it', async () => {
      await cutBack(4)
      await look()
      await record(3)
      await look()
      assert.deepEqual(told, ['the entries 5 to 6 are missing at the end'])
    })

    test('a tail that was written anew is another one', async () => {
      await cutBack(4)
      await record(2)
      await look()
      assert.deepEqual(told, ['entry 6 is another one than it was'])
    })

    test('an entry that this thread has just written is missed before its head was ever seen', async () => {
      await new AuditLog(db, KEY, watch).record(AUTHOR, 'signing.stop')
      await cutBack(6)
      await look()
      assert.deepEqual(told, ['entry 7 is missing at the end'])
    })

    test('a removed last entry is told, and its return as well', async () => {
      await tamper('CREATE TABLE kept AS SELECT * FROM admin_audit_log WHERE sequence = 6')
      await tamper('DELETE FROM admin_audit_log WHERE sequence = 6')
      await look()
      await tamper('INSERT INTO admin_audit_log SELECT * FROM kept', 'DROP TABLE kept')
      await watch.look()
      assert.deepEqual(told, ['the head, 6, is not that of the last entry', 'found'])
    })

    test('a log that went back with its database, as an entry under the key says, goes on from its new end without an alarm', async () => {
      await cutBack(4)
      await watch.look()
      await new AuditLog(db, KEY, watch).record(AUTHOR, 'database.reconcile', { certificates: 1 })
      await look()
      assert.deepEqual(told, ['went back: entry 6 is missing at the end'])
      await cutBack(4)
      await look()
      assert.equal(told.at(-1), 'entry 5 is missing at the end')
    })

    describe('clocks of two instances that differ', () => {
      const HOUR_MS = 3_600_000
      /** Another instance, whose clock is off, writes that the database was behind its signer. */
      async function reconciledBy(test: TestContext, offMs: number) {
        test.mock.timers.enable({ apis: ['Date'], now: Date.now() + offMs })
        await new AuditLog(db, KEY).record(AUTHOR, 'database.reconcile', { certificates: 1 })
        test.mock.timers.reset()
      }

      test('the entry of an instance whose clock is an hour behind excuses the missing end', async (t) => {
        await cutBack(4)
        await watch.look()
        await reconciledBy(t, -HOUR_MS)
        await look()
        assert.deepEqual(told, ['went back: entry 6 is missing at the end'])
      })

      test('an entry that was seen excuses no cut, though it is of an hour ahead', async (t) => {
        await reconciledBy(t, HOUR_MS)
        await watch.look()
        await record(2)
        await watch.look()
        await cutBack(7)
        await look()
        assert.deepEqual(told, ['the entries 8 to 9 are missing at the end'])
      })

      test('nor does an older one that a cut lays bare', async (t) => {
        await reconciledBy(t, HOUR_MS)
        await reconciledBy(t, HOUR_MS)
        await watch.look()
        await cutBack(7)
        await look()
        assert.deepEqual(told, ['entry 8 is missing at the end'])
      })
    })

    test('an entry under another key excuses no cut', async () => {
      await cutBack(4)
      await watch.look()
      await new AuditLog(db, Buffer.alloc(32, 1), undefined).record(AUTHOR, 'database.reconcile', { certificates: 1 })
      await look()
      assert.equal(told.length, 1)
      assert.doesNotMatch(told[0] ?? '', /went back/)
    })

    test('retention raises no alarm, and an invented cut does', async () => {
      await cut(FAR)
      await watch.look()
      assert.deepEqual(told, [])
      await tamper("UPDATE admin_audit_head SET cut_sequence = sequence, cut_mac = mac, cut_seal = 'x'")
      await look()
      assert.deepEqual(told, ['the cut at 7 was not made by retention'])
    })
  })
})
