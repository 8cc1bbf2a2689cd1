/**
 * kill -9 of the commands that revoke many certificates. `bulk-revoke` dies between two pages: the service ends the job, and each
 * certificate has its outcome. `incidents begin` dies within its one transaction: nothing is left, and the next run does all.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { describe, test } from 'node:test'
import { administered } from '../support/administered.ts'
import { operate } from '../support/operator.ts'
import { withQuery } from '../support/revoked.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

/** Pages have 500. */
const CERTIFICATES = 1_200

describe('kill -9 of a command that revokes many certificates', () => {
  const { service, sql } = administered(() => sharedService('small pages'))

  const insert = (domain: string, serial: string) =>
    sql(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, issued_at)
       SELECT gen_random_uuid(), decode($2 || lpad(to_hex(n), 6, '0'), 'hex'), '\\x01', ARRAY[$1], now(),
              now() + interval '1 day', '', now() - interval '1 second'
         FROM generate_series(1, ${CERTIFICATES}) n`,
      [domain, serial],
    )
  const jobOf = async (domain: string) => {
    const [row] = await sql<{ id: string; revoked: number }>(
      "SELECT id, revoked FROM bulk_revocations WHERE filter->>'domain' = $1",
      [domain],
    )
    return row
  }

  /** Kills the command while it waits for the lock, once `isReached`. */
  async function killAt(lock: string, words: readonly string[], isReached: () => Promise<boolean>): Promise<void> {
    await withQuery(service.database.connection, async (query) => {
      await query('BEGIN')
      await query(lock)
      const main = path.join(import.meta.dirname, '../../src/cli/main.js')
      const config = path.join(service.folder, 'config.yaml')
      const child = spawn(process.execPath, [main, '-c', config, ...words], { stdio: ['ignore', 'ignore', 'inherit'] })
      await until('it is there', async () => {
        assert.equal(child.exitCode, null, 'it ended by itself')
        return isReached()
      })
      child.kill('SIGKILL')
      await once(child, 'exit')
      await query('ROLLBACK')
    })
  }

  async function requireAllRevoked(domain: string): Promise<string> {
    const { id } = await until('a job', () => jobOf(domain))
    const shown = await until('its end is said', async () => {
      const said = JSON.parse(await operate(service, 'bulk-revocations', 'show', id, '--json'))
      return said.status === 'done' && said
    })
    assert.deepEqual([shown.total_matched, shown.revoked, shown.errors_total], [CERTIFICATES, CERTIFICATES, 0])
    const left = await sql('SELECT FROM certificates WHERE names = ARRAY[$1] AND revoked_at IS NULL', [domain])
    assert.deepEqual(left, [])
    return id
  }

  test('bulk-revoke, between pages: the service ends the job, and what is said is so', async () => {
    await insert('pages.test', '30')
    await killAt(
      "SELECT FROM certificates WHERE names = ARRAY['pages.test'] ORDER BY id DESC LIMIT 1 FOR UPDATE",
      ['certificates', 'bulk-revoke', '--domain', 'pages.test', '--reason', '4'],
      async () => ((await jobOf('pages.test'))?.revoked ?? 0) > 0,
    )
    assert.ok(((await jobOf('pages.test'))?.revoked ?? 0) < CERTIFICATES)
    await requireAllRevoked('pages.test')
  })

  test('incidents begin, within its transaction: nothing is left of it, and the next run does all', async () => {
    await insert('incident.test', '31')
    const words = ['incidents', 'begin', '--filter', '{"domain":"incident.test"}', '--revoke', 'true', '--reason', '4']
    const confirmed = [...words, '--confirm-count', String(CERTIFICATES)]
    await killAt('LOCK TABLE incidents IN EXCLUSIVE MODE', confirmed, async () => {
      const waiting = await sql("SELECT FROM pg_locks WHERE relation = 'incidents'::regclass AND NOT granted")
      return waiting.length > 0
    })
    assert.deepEqual([await jobOf('incident.test'), await sql('SELECT FROM incidents')], [undefined, []])
    const { id: incident } = JSON.parse(await operate(service, ...confirmed, '--json'))
    const job = await requireAllRevoked('incident.test')
    const shown = JSON.parse(await operate(service, 'incidents', 'show', incident, '--json'))
    assert.deepEqual([shown.job_id, shown.job.status, shown.job.revoked], [job, 'done', CERTIFICATES])
  })
})
