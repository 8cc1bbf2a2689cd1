/** `chancery import` that is ended by kill -9 in its second page of 500, and is run again as an operator would. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { administered } from '../support/administered.ts'
import { type FormerCertificate, issueFormerly } from '../support/cas/former-ca.ts'
import { operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const MAIN = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const PAGE = 500
const CERTIFICATES = PAGE + 20
const [ACTIVE, REVOKED] = [20, 40]

describe('an import that was killed', () => {
  const { service, sql } = administered(() => sharedService('admin'))
  const folder = temporaryFolder()
  const csv = path.join(folder, 'certificates.csv')
  const issued: FormerCertificate[] = []
  before(async () => {
    const rows = ['fingerprint,base64Cert,status,revocationDate,revocationReason']
    for (let at = 0; at < CERTIFICATES; at++) {
      const one = await issueFormerly(service.ca, [`host-${at}.killed.test`])
      issued.push(one)
      const isRevoked = at % 10 === 0
      rows.push(`${at},${one.der.toString('base64')},${isRevoked ? REVOKED : ACTIVE},${isRevoked ? Date.now() : -1},4`)
    }
    // Twice, on pages of their own.
    rows.push(rows[1] as string)
    writeFileSync(csv, `${rows.join('\n')}\n`)
  })

  const books = async () =>
    (
      await sql(
        `SELECT count(*)::integer AS certificates, count(DISTINCT serial_number)::integer AS serials, count(revoked_at)::integer AS revoked
           FROM certificates WHERE '{killed.test}' <@ name_suffixes(names)`,
      )
    )[0]

  test('has whole pages, and brings the rest when it is run again', async () => {
    const last = issued.at(-1)?.serial ?? ''
    await sql(`
      CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
      CREATE TRIGGER wait_here BEFORE INSERT ON certificates FOR EACH ROW
        WHEN (NEW.serial_number = '\\x${last}') EXECUTE FUNCTION wait_here()`)
    const waits = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    try {
      const words = [MAIN, '-c', path.join(service.folder, 'config.yaml'), 'import', 'ejbca', '--csv', csv]
      const command = spawn(process.execPath, words, { stdio: 'ignore' })
      const ended = once(command, 'exit')
      await until('the second page is being written', async () => (await sql(`SELECT 1 ${waits}`)).length > 0)
      command.kill('SIGKILL')
      assert.deepEqual(await ended, [null, 'SIGKILL'])
      // As PostgreSQL does as soon as it misses the client.
      await sql(`SELECT pg_terminate_backend(pid) ${waits}`)
      await until('its session has ended', async () => (await sql(`SELECT 1 ${waits}`)).length === 0)
    } finally {
      await sql('DROP TRIGGER wait_here ON certificates; DROP FUNCTION wait_here()')
    }
    assert.deepEqual(await books(), { certificates: PAGE, serials: PAGE, revoked: PAGE / 10 })

    const report = JSON.parse(await operate(service, 'import', 'ejbca', '--csv', csv, '--json'))
    const { read, new: fresh, known, skipped } = report.certificates
    assert.deepEqual({ read, fresh, known, skipped }, { read: 521, fresh: 20, known: 501, skipped: 0 })
    assert.equal(report.revocations, 2)
    assert.deepEqual(await books(), { certificates: CERTIFICATES, serials: CERTIFICATES, revoked: CERTIFICATES / 10 })
    const pages = await sql(
      "SELECT details->>'new' AS new FROM admin_audit_log WHERE action = 'import.write' ORDER BY sequence DESC LIMIT 2",
    )
    assert.deepEqual(pages, [{ new: '20' }, { new: '500' }], 'one entry a page that was written')
  })
})
