/** Bulk revocation over the Admin API: filters, dry run, results, confirmation, and a job that outlives its instance. */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import {
  type AdminClient,
  type AdminReplyText,
  adminConfig,
  administrator,
  allRows,
  assertNamed,
  clientWith,
} from '../support/admin.ts'
import { lastLineOf } from '../support/compared.ts'
import { rowsIn, sqlOn, untilWaiting } from '../support/database.ts'
import { metricOf } from '../support/metrics.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { aCertificate } from '../unit/shared/pki/support.ts'

interface Made {
  account?: string
  names?: string[]
  issuedAt?: string
  notAfter?: string
}

const ACCOUNT = '01938c4e-0000-7000-8000-000000000001'
const DAY_MS = 86_400_000
let made = 0

/** Rows as an import leaves them; nothing here reads the certificates themselves. */
async function certificates(service: TestService, count: number, { account, names, issuedAt, notAfter }: Made = {}) {
  const serials: string[] = []
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    serials.push((0x1000_0000 + ++made).toString(16))
    ids.push(uuidv7(Date.parse(issuedAt ?? new Date().toISOString())))
  }
  await rowsIn(
    service.database,
    `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der, issued_at)
     SELECT id, $3, decode(serial, 'hex'), '\\x01', $4, $5::timestamptz, $6, '\\x00', $5::timestamptz
       FROM unnest($1::uuid[], $2::text[]) AS i (id, serial)`,
    [
      ids,
      serials,
      account ?? null,
      names ?? ['a.test'],
      issuedAt ?? new Date(Date.now() - 1000).toISOString(),
      notAfter ?? new Date(Date.now() + DAY_MS).toISOString(),
    ],
  )
  return serials
}

describe('bulk revocation', () => {
  let service: TestService
  let another: AdminInstance | undefined
  let admin: AdminClient
  let auditor: AdminClient
  before(async () => {
    service = await startTestService({ config: { ...adminConfig(), crl: { enabled: true } } })
    admin = await administrator(service, 'alice')
    auditor = await administrator(service, 'audrey', 'auditor')
  })
  after(async () => {
    await another?.close()
    await service.dispose()
  })
  beforeEach(async () => {
    // Revocations that the signer has noted would come back, and no list is built before they have.
    const noted = lastLineOf(service)
    await rowsIn(
      service.database,
      `BEGIN;
       DELETE FROM certificates;
       UPDATE signer_marks SET certificates_seq = ${noted}, revocations_seq = ${noted};
       COMMIT`,
    )
  })

  const sql = sqlOn(() => service.database)
  const revoke = (filter: unknown, more: Record<string, unknown> = {}) =>
    admin.send('POST', '/certificates/bulk-revoke', { filter, ...more })
  /** A request that has waited for long enough is answered with the job as it stands. */
  const idOf = ({ json }: AdminReplyText): string => json.job_id ?? json.id
  /** What becomes of the job, also where it takes longer than its request. */
  const outcome = async (reply: AdminReplyText) => {
    const job = async () => (await admin.get(`/bulk-revocations/${idOf(reply)}`)).json
    return until('the job is done', async () => (await job()).status === 'done' && job())
  }
  const revokedSerials = async () =>
    (
      await sql<{ serial: string }>(
        `SELECT encode(serial_number, 'hex') AS serial FROM certificates WHERE revoked_at IS NOT NULL ORDER BY 1`,
      )
    ).map(({ serial }) => serial)

  test('serial numbers in any spelling are revoked, and counted', async () => {
    const [first = '', second = ''] = await certificates(service, 3)
    const spelled = `00:${first.toUpperCase().replaceAll(/(..)(?=.)/g, '$1:')}`
    const reply = await revoke({ serial_numbers: [spelled, second, 'abcdef'] }, { reason: 4 })
    assert.equal(reply.status, 200, reply.text)
    const { job_id, ...result } = reply.json
    assert.deepEqual(result, { revoked: 2, errors: [], errors_total: 0, total_matched: 2 })
    assert.deepEqual(await revokedSerials(), [first, second].sort())
    const rows = await sql('SELECT DISTINCT revocation_reason FROM certificates')
    assert.deepEqual(rows.map(({ revocation_reason }) => revocation_reason).sort(), [4, null])
    const job = await auditor.get(`/bulk-revocations/${job_id}`)
    assert.deepEqual([job.json.status, job.json.created_by, job.json.revoked], ['done', 'alice', 2])
  })

  test('the members of a filter combine, times are strict, and what has expired is left alone', async () => {
    const names = ['b.test', '*.b.test']
    const past = '2026-01-02T00:00:00Z'
    const [wanted] = await certificates(service, 1, { account: ACCOUNT, names, issuedAt: past })
    await certificates(service, 1, { account: ACCOUNT, names: ['c.test'], issuedAt: past })
    await certificates(service, 1, { names, issuedAt: past })
    await certificates(service, 1, { account: ACCOUNT, names })
    await certificates(service, 1, { account: ACCOUNT, names, issuedAt: past, notAfter: '2026-01-03T00:00:00Z' })
    const filter = { account_id: ACCOUNT, domain: '*.B.test', issued_before: '2026-02-01' }
    assert.equal((await revoke({ ...filter, issued_before: past })).json.total_matched, 0)
    assert.equal((await revoke({ ...filter, issued_after: past })).json.total_matched, 0)
    assert.equal((await revoke({ ...filter, issued_after: '2026-01-01' })).json.revoked, 1)
    assert.deepEqual(await revokedSerials(), [wanted])
  })

  // docs/decisions/clocks.md
  test('what was issued by a clock that was ahead, and what one that is ahead calls expired, is revoked, too', async () => {
    const ahead = new Date(Date.now() + 5 * DAY_MS).toISOString()
    const [later] = await certificates(service, 1, {
      issuedAt: ahead,
      notAfter: new Date(Date.now() + 9 * DAY_MS).toISOString(),
    })
    const [expired] = await certificates(service, 1, { notAfter: new Date(Date.now() - DAY_MS).toISOString() })
    const filter = { serial_numbers: [later, expired] }
    await sql("UPDATE slow_clock SET at = now() - interval '2 days'")
    const counted = await revoke(filter, { dry_run: true })
    const done = await revoke(filter)
    await sql('UPDATE slow_clock SET at = now()')
    assert.deepEqual([counted.json.matching_certificates, done.json.revoked], [2, 2])
  })

  test('a dry run counts all, shows a hundred, and changes nothing', async () => {
    await certificates(service, 130, { names: ['dry.test'] })
    const before = (await admin.get('/bulk-revocations')).json.length
    const reply = await revoke({ domain: 'dry.test' }, { dry_run: true })
    assert.deepEqual(
      [reply.json.dry_run, reply.json.matching_certificates, reply.json.serial_numbers.length],
      [true, 130, 100],
    )
    assert.deepEqual(await revokedSerials(), [])
    assert.equal((await admin.get('/bulk-revocations')).json.length, before)
  })

  test('a dry run counts what would be revoked, and names no certificate that is revoked already', async () => {
    const serials = await certificates(service, 20, { names: ['part.test'] })
    const before = serials.slice(0, 3)
    await revoke({ serial_numbers: before })
    const { json } = await revoke({ domain: 'part.test' }, { dry_run: true })
    assert.deepEqual([json.matching_certificates, json.already_revoked], [17, 3])
    assert.deepEqual(
      json.serial_numbers.filter((serial: string) => before.includes(serial)),
      [],
    )
    const done = (await revoke({ domain: 'part.test' })).json
    assert.deepEqual([done.revoked, done.errors_total, done.total_matched], [17, 3, 20])
    const none = (await revoke({ domain: 'part.test' }, { dry_run: true })).json
    assert.deepEqual([none.matching_certificates, none.already_revoked, none.serial_numbers], [0, 20, []])
  })

  test('for key compromise, a certificate that cannot be read is told as not revoked, and the others are', async () => {
    const serials = await certificates(service, 3, { names: ['key.test'] })
    for (const serial of serials.slice(1))
      await sql("UPDATE certificates SET der = $1 WHERE serial_number = decode($2, 'hex')", [
        aCertificate({ commonName: serial }),
        serial,
      ])
    const { json } = await revoke({ domain: 'key.test' }, { reason: 1 })
    assert.deepEqual([json.revoked, json.errors_total, json.total_matched], [2, 1, 3])
    assert.match(json.errors[0].error, /not revoked: the stored certificate cannot be read/)
    assert.equal(json.errors[0].serial_number, serials[0])
    assert.deepEqual(await revokedSerials(), serials.slice(1))
    assert.equal((await revoke({ domain: 'key.test' }, { reason: 4 })).json.revoked, 1)
  })

  test('a job that does not get on says why, and no longer when it does', async () => {
    await certificates(service, 2, { names: ['stuck.test'] })
    await sql(
      `CREATE FUNCTION obstruct() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$`,
    )
    await sql('CREATE TRIGGER obstruct BEFORE UPDATE ON certificates FOR EACH ROW EXECUTE FUNCTION obstruct()')
    const { id } = (await revoke({ domain: 'stuck.test' }, { wait: false })).json
    const job = async () => (await auditor.get(`/bulk-revocations/${id}`)).json
    const stuck = await until('it says why', async () => {
      const shown = await job()
      return shown.obstacle !== null && shown
    })
    await sql('DROP FUNCTION obstruct CASCADE')
    assert.match(stuck.obstacle, /the disk is full/)
    assert.deepEqual([stuck.status, stuck.revoked], ['revoking', 0])
    await until('it is done', async () => (await job()).status === 'done')
    assert.deepEqual([(await job()).obstacle, (await job()).revoked], [null, 2])
  })

  test('what was revoked before is an error, of which fifty are shown', async () => {
    await certificates(service, 60, { names: ['again.test'] })
    await revoke({ domain: 'again.test' })
    const [fresh] = await certificates(service, 1, { names: ['again.test'] })
    const again = await revoke({ domain: 'again.test' })
    const { revoked, errors, errors_total, total_matched } = again.json
    assert.deepEqual([revoked, errors.length, errors_total, total_matched], [1, 50, 60, 61])
    assert.equal(errors[0].error, 'already revoked')
    const results = await admin.get(`/bulk-revocations/${again.json.job_id}/certificates?limit=100`)
    const outcomes = results.json.map(({ outcome }: { outcome: string }) => outcome)
    assert.deepEqual(new Set(outcomes), new Set(['revoked', 'already revoked']))
    assert.ok(results.json.some((row: { serial_number: string; outcome: string }) => row.serial_number === fresh))
  })

  test('a certificate that retention deletes meanwhile is told as such, and those to come have no outcome', async () => {
    await certificates(service, 2, { names: ['gone.test'] })
    const [first, second] = await sql<{ id: string; serial: string }>(
      "SELECT id, encode(serial_number, 'hex') AS serial FROM certificates ORDER BY id",
    )
    // Listed, and no instance has gone on with it yet.
    const job = uuidv7(Date.now())
    await sql(
      `INSERT INTO bulk_revocations (id, filter, reason, author, status, after_id, total_matched, progressed_at)
       VALUES ($1, '{"domain": "gone.test"}', 0, '{"username": "alice", "role": "admin"}', 'revoking',
               '00000000-0000-0000-0000-000000000000', 2, now() + interval '1 hour')`,
      [job],
    )
    await sql(
      `INSERT INTO bulk_revocation_certificates (job_id, certificate_id, serial_number)
       SELECT $1, id, serial_number FROM certificates`,
      [job],
    )
    const outcomes = async () =>
      (await admin.get(`/bulk-revocations/${job}/certificates`)).json.map(
        (row: { serial_number: string; outcome: string | null }) => [row.serial_number, row.outcome],
      )
    assert.deepEqual(await outcomes(), [
      [first?.serial, null],
      [second?.serial, null],
    ])
    await sql('DELETE FROM certificates WHERE id = $1', [first?.id])
    await sql("UPDATE bulk_revocations SET progressed_at = now() - interval '1 hour'")
    await until('it is done', async () => (await admin.get(`/bulk-revocations/${job}`)).json.status === 'done')
    assert.deepEqual(await outcomes(), [
      [first?.serial, 'no longer stored'],
      [second?.serial, 'revoked'],
    ])
  })

  test('thousands go page by page, count in the metric, and are in the audit log as they begin and end', async () => {
    // What the jobs before have revoked is counted some time after them.
    const [all] = await sql<{ revoked: number }>(
      'SELECT coalesce(sum(revoked), 0)::int AS revoked FROM bulk_revocations',
    )
    const revokedBefore = all?.revoked as number
    await until('all before are counted', async () => (await metric()) === revokedBefore)
    await certificates(service, 2_300, { names: ['many.test'] })
    const reply = await revoke({ domain: 'many.test' }, { reason: 5 })
    const { revoked, total_matched } = await outcome(reply)
    assert.deepEqual([revoked, total_matched], [2_300, 2_300], reply.text)
    const rows = await sql<{ details: Record<string, unknown> }>(
      `SELECT details FROM admin_audit_log WHERE action = 'certificate.bulk_revoke'
        AND details->>'job_id' = $1 ORDER BY sequence`,
      [idOf(reply)],
    )
    const expected = { job_id: idOf(reply), filter: { domain: 'many.test' }, reason: 'cessationOfOperation' }
    assert.deepEqual(rows, [
      { details: { ...expected, phase: 'begun' } },
      { details: { ...expected, revoked: 2_300, errors: 0 } },
    ])
    await until('they are counted', async () => (await metric()) === revokedBefore + 2_300)
    const first = await admin.get(`/bulk-revocations/${idOf(reply)}/certificates?limit=1000`)
    assert.equal(first.json.length, 1000)
    assert.match(first.headers.get('link') ?? '', /cursor=.*rel="next"/)
  })

  test('an audit entry names a hundred of the serial numbers and counts them all', async () => {
    const serial_numbers = await certificates(service, 150)
    const job_id = idOf(await revoke({ serial_numbers }))
    await outcome({ json: { job_id } } as AdminReplyText)
    const rows = await sql<{ filter: { serial_numbers: string[]; serial_numbers_total: number } }>(
      `SELECT details->'filter' AS filter FROM admin_audit_log WHERE details->>'job_id' = $1 ORDER BY sequence`,
      [job_id],
    )
    const counts = rows.map(({ filter }) => [filter.serial_numbers.length, filter.serial_numbers_total])
    assert.deepEqual(counts, [
      [100, 150],
      [100, 150],
    ])
  })

  test('what is wrong is 400 and names the member', async () => {
    await assertNamed(
      (body) => admin.send('POST', '/certificates/bulk-revoke', body),
      [
        [{}, 'filter'],
        [{ filter: {} }, 'filter'],
        [{ filter: null }, 'filter'],
        [{ filter: { acount_id: ACCOUNT } }, 'filter.acount_id'],
        [{ filter: { account_id: 'x' } }, 'filter.account_id'],
        [{ filter: { serial_numbers: ['xyz'] } }, 'filter.serial_numbers.0'],
        [{ filter: { serial_numbers: '01' } }, 'filter.serial_numbers'],
        [{ filter: { issued_before: 'yesterday' } }, 'filter.issued_before'],
        [{ filter: { domain: 'a.test' }, reason: 6 }, 'reason'],
        [{ filter: { domain: 'a.test' }, reason: '1' }, 'reason'],
        [{ filter: { domain: 'a.test' }, dry_run: 'yes' }, 'dry_run'],
        [{ filter: { domain: 'a.test' }, dryrun: true }, 'dryrun'],
      ],
    )
    assert.equal((await revoke({ serial_numbers: [] })).json.total_matched, 0)
    assert.equal((await admin.get(`/bulk-revocations/${ACCOUNT}`)).status, 404)
    assert.equal((await auditor.send('POST', '/certificates/bulk-revoke', { filter: { domain: 'a' } })).status, 403)
  })

  const metric = (name = 'certificates_revoked_total') => metricOf(service, name)

  test('a job of many pages has one CRL, at its end', async () => {
    await certificates(service, 4_000, { names: ['crl.test'] })
    await sql('UPDATE certificates SET issuer_fingerprint = (SELECT fingerprint FROM issuers LIMIT 1)')
    const before = await until('there is a list', async () => (await metric('crl_builds_total')) || undefined)
    assert.equal((await outcome(await revoke({ domain: 'crl.test' }))).revoked, 4_000)
    await until('it is in the list', async () => (await admin.get('/crl')).json.lists[0].entries === 4_000)
    const built = await until('the build counts', async () => {
      const builds = await metric('crl_builds_total')
      return builds > before && builds
    })
    assert.equal(built, before + 1)
  })

  /** A job that no instance moves yet, of all certificates there are. @returns its id */
  async function standingJob(status: string, reached = 0): Promise<string> {
    const id = uuidv7(Date.now())
    await sql(
      `INSERT INTO bulk_revocations (id, filter, reason, author, status, total_matched, progressed_at, after_id)
       SELECT $1, '{"domain": "standing.test"}', 4, '{"username": "alice", "role": "admin"}', $2, count(*), now() + interval '1 hour',
              coalesce((array_agg(id ORDER BY id))[$3], '00000000-0000-0000-0000-000000000000') FROM certificates`,
      [id, status, reached],
    )
    await sql(
      `INSERT INTO bulk_revocation_certificates (job_id, certificate_id, serial_number)
       SELECT $1, id, serial_number FROM certificates`,
      [id],
    )
    return id
  }
  const outcomesOf = async (id: string) => {
    const results = (await admin.get(`/bulk-revocations/${id}/certificates`)).json
    return results.map(({ outcome }: { outcome: string | null }) => outcome)
  }

  test('a job that is cancelled keeps what it has revoked, leaves the rest, and says so', async () => {
    await certificates(service, 3, { names: ['standing.test'] })
    const id = await standingJob('revoking', 2)
    assert.equal((await auditor.send('POST', `/bulk-revocations/${id}/cancel`)).status, 403)
    const cancelled = await admin.send('POST', `/bulk-revocations/${id}/cancel`)
    assert.deepEqual([cancelled.status, cancelled.json.status], [200, 'cancelled'], cancelled.text)
    assert.notEqual(cancelled.json.finished_at, null)
    assert.deepEqual(await outcomesOf(id), ['revoked', 'revoked', 'cancelled before its turn'])
    const [entry] = (await admin.get('/audit-log?action=certificate.bulk_revoke&limit=1')).json
    assert.deepEqual([entry.details.phase, entry.details.job_id, entry.user_id === null], ['cancelled', id, false])

    // Where an instance would take it up.
    await sql("UPDATE bulk_revocations SET progressed_at = now() - interval '1 hour'")
    assert.equal((await outcome(await revoke({ domain: 'standing.test' }))).revoked, 3)
    assert.equal((await admin.get(`/bulk-revocations/${id}`)).json.revoked, 0)
  })

  test('a job that is cancelled while it lists certificates has revoked none of them', async () => {
    await certificates(service, 2, { names: ['standing.test'] })
    const id = await standingJob('matching', 1)
    assert.equal((await admin.send('POST', `/bulk-revocations/${id}/cancel`)).json.status, 'cancelled')
    assert.deepEqual(await outcomesOf(id), ['cancelled before its turn', 'cancelled before its turn'])
  })

  test('only a job under way is cancelled', async () => {
    await certificates(service, 1, { names: ['ended.test'] })
    const { job_id: id } = (await revoke({ domain: 'ended.test' })).json
    await until('it is done', async () => (await admin.get(`/bulk-revocations/${id}`)).json.status === 'done')
    const late = await admin.send('POST', `/bulk-revocations/${id}/cancel`)
    assert.deepEqual([late.status, late.json.error], [409, 'conflict'], late.text)
    assert.match(late.json.message, /has ended already: it is done/)
    assert.equal((await admin.send('POST', `/bulk-revocations/${ACCOUNT}/cancel`)).status, 404)
  })

  test('a cancelled job stops after its page, what it revoked is in the CRL, and its request hears of it', async () => {
    await certificates(service, 3_000, { names: ['stop.test'] })
    await sql('UPDATE certificates SET issuer_fingerprint = (SELECT fingerprint FROM issuers LIMIT 1)')
    const { asked, cancelled } = await withQuery(service.database.connection, async (query) => {
      // The second page waits for one of its certificates, and the request to cancel for the page.
      await query('BEGIN')
      await query(
        'SELECT FROM certificates WHERE id = (SELECT id FROM certificates ORDER BY id OFFSET 700 LIMIT 1) FOR UPDATE',
      )
      const asked = revoke({ domain: 'stop.test' })
      const first = async () => (await admin.get('/bulk-revocations?limit=1')).json[0]
      const { id } = await until('a page is revoked', async () => (await first())?.revoked === 500 && first())
      await untilWaiting(service.database)
      const cancelled = admin.send('POST', `/bulk-revocations/${id}/cancel`)
      await untilWaiting(service.database, 2)
      await query('COMMIT')
      return { asked, cancelled: await cancelled }
    })
    assert.equal(cancelled.status, 200, cancelled.text)
    const { revoked } = cancelled.json
    assert.ok(revoked >= 1_000 && revoked < 3_000 && revoked % 500 === 0, `whole pages, not all: ${revoked}`)
    const reply = await asked
    assert.deepEqual([reply.status, reply.json.error], [409, 'conflict'], reply.text)
    assert.ok(reply.json.message.includes(`cancelled; ${revoked} certificates`), reply.json.message)
    await until(
      'what it revoked is in the list',
      async () => (await admin.get('/crl')).json.lists[0].entries === revoked,
    ).catch(async (error: Error) => {
      const health = await (await fetch(`${service.baseUrl}/healthz`)).text()
      throw new Error(`${error.message}: ${revoked} in ${(await admin.get('/crl')).text}; ${health}`)
    })
    assert.equal((await revokedSerials()).length, revoked)
  })

  test('a request that does not wait names its job', async () => {
    await certificates(service, 600, { names: ['apart.test'] })
    const reply = await revoke({ domain: 'apart.test' }, { wait: false })
    assert.equal(reply.status, 202, reply.text)
    assert.match(reply.headers.get('location') ?? '', new RegExp(`/bulk-revocations/${reply.json.id}$`))
    const job = async () => (await admin.get(`/bulk-revocations/${reply.json.id}`)).json
    await until('it is done', async () => (await job()).status === 'done')
    assert.equal((await job()).revoked, 600)
  })

  test('a leaked key is a filter: what has it is revoked', async () => {
    const [first, second] = await certificates(service, 2, { names: ['leaked.test'] })
    await certificates(service, 1, { names: ['leaked.test'] })
    const key = 'a1'.repeat(32)
    await sql("UPDATE certificates SET spki_sha256 = decode($1, 'hex') WHERE encode(serial_number, 'hex') = ANY ($2)", [
      key,
      [first, second],
    ])
    const spelled = key.toUpperCase()
    const hits = await revoke({ spki_sha256: spelled }, { dry_run: true })
    assert.deepEqual([hits.json.matching_certificates, hits.json.serial_numbers.sort()], [2, [first, second]])
    assert.equal((await revoke({ spki_sha256: spelled, domain: 'leaked.test' })).json.revoked, 2)
    assert.deepEqual(await revokedSerials(), [first, second])
    assert.equal((await revoke({ spki_sha256: 'short' })).status, 400)
  })

  test('a job goes on with another instance when its own was killed, and every certificate has its outcome', async () => {
    await certificates(service, 3_000, { names: ['crash.test'] })
    const progress = async () => {
      const [job] = await sql<{ id: string; revoked: number }>(
        "SELECT id, revoked FROM bulk_revocations WHERE filter->>'domain' = 'crash.test'",
      )
      return job ?? { id: '', revoked: 0 }
    }
    await withQuery(service.database.connection, async (query) => {
      // Its last page waits for the last certificate, until the connections of who was killed are gone.
      await query('BEGIN')
      await query(
        'SELECT FROM certificates WHERE id = (SELECT id FROM certificates ORDER BY id DESC LIMIT 1) FOR UPDATE',
      )
      const cutOff = revoke({ domain: 'crash.test' }).catch(() => 'gone')
      await until('it has begun', async () => (await progress()).revoked > 0)
      await service.kill()
      await cutOff
      await until('its connections are gone', async () => {
        const ended = await sql(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'chancery'`,
        )
        return ended.length === 0
      })
      await query('ROLLBACK')
    })
    assert.ok((await progress()).revoked < 3_000, 'the job was over too soon')

    // With what the next test needs.
    another = await adminInstance(service, { admin_api: { bulk_revoke_confirm_above: 2 } })
    admin = clientWith(another.baseUrl, admin.token)
    await until('it is done', async () => (await progress()).revoked === 3_000)
    const outcomes = new Map<string, number>()
    const { id } = await progress()
    for (const { outcome } of await allRows(admin, `/bulk-revocations/${id}/certificates?limit=1000`))
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    assert.deepEqual([...outcomes], [['revoked', 3_000]])
    await until('it is logged', async () => {
      const entries = await sql(
        `SELECT FROM admin_audit_log WHERE action = 'certificate.bulk_revoke' AND user_id IS NOT NULL
            AND details->>'job_id' = $1 AND NOT details ? 'phase'`,
        [id],
      )
      return entries.length === 1
    })
  })

  test('above a configured number it has to be repeated, and a job that finds more revokes none', async () => {
    await certificates(service, 3, { names: ['three.test'] })
    for (const more of [{}, { confirm_count: 2 }]) {
      const refused = await revoke({ domain: 'three.test' }, more)
      assert.equal(refused.status, 400)
      assert.match(refused.json.message, /'confirm_count' must be 3,/)
    }
    const counted = await revoke({ domain: 'three.test' }, { confirm_count: 3 })
    assert.deepEqual([counted.status, counted.json.revoked], [200, 3])

    await certificates(service, 3, { names: ['grows.test'] })
    const filter = { domain: 'grows.test' }
    const reply = await withQuery(service.database.connection, async (query) => {
      // The request counts, and waits before it makes the job.
      await query('BEGIN')
      await query('LOCK TABLE bulk_revocations IN EXCLUSIVE MODE')
      const asked = revoke(filter, { confirm_count: 3 })
      await untilWaiting(service.database)
      await certificates(service, 1, { names: ['grows.test'], issuedAt: new Date(Date.now() - 60_000).toISOString() })
      await query('COMMIT')
      return asked
    })
    assert.deepEqual([reply.status, reply.json.error], [409, 'conflict'], reply.text)
    assert.match(reply.json.message, /more than the 3 confirmed certificates match now; none was revoked/)
    const [job] = (await admin.get('/bulk-revocations')).json
    assert.deepEqual([job.status, job.at_most, job.revoked], ['refused', 3, 0])
    assert.deepEqual(new Set(await outcomesOf(job.id)), new Set(['not revoked: the job was refused']))
    const [entry] = (await admin.get('/audit-log?action=certificate.bulk_revoke&limit=1')).json
    assert.deepEqual([entry.details.phase, entry.details.at_most], ['refused', 3])
    const done = await revoke(filter, { confirm_count: 4 })
    assert.equal(done.json.revoked, 4)
    // The number that has to be confirmed is that of the certificates that would be revoked.
    await certificates(service, 3, { names: ['grows.test'] })
    assert.match((await revoke(filter, { confirm_count: 7 })).json.message, /'confirm_count' must be 3,/)
    assert.equal((await revoke(filter, { confirm_count: 3 })).json.revoked, 3)
  })
})
