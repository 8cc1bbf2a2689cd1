/** A whole service whose settings ask for no warnings of expiry: nothing is recorded, and it says that it warns nobody. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { administered } from '../support/administered.ts'
import { healthOf } from '../support/metrics.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const TASK = 'expiration_warnings'

describe('a service with notifications.expiration_warning_days: []', () => {
  const { service, sql } = administered(() => sharedService('alarms'))
  before(async () => {
    await sql(
      `WITH account AS (
         INSERT INTO accounts (id, thumbprint, jwk, contacts)
         VALUES (gen_random_uuid(), 'one', '{}', '{mailto:ops@example.com}') RETURNING id)
       INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       SELECT gen_random_uuid(), id, gen_random_uuid(), '\\x0a', '\\x00', '{a.test}', now() - interval '60 days',
              now() + interval '5 days', '\\x00' FROM account`,
    )
  })

  const health = () => healthOf(service)
  const rows = async (table: string) => (await sql(`SELECT FROM ${table}`)).length
  const warnings = () => sql("SELECT FROM notifications WHERE notification_type = 'expiration_warning'")
  const status = () =>
    execFileSync(process.execPath, [CLI, '-c', path.join(service.folder, 'config.yaml'), 'workers', 'status'], {
      encoding: 'utf8',
    })
  /** `SIGHUP` with these settings. */
  async function reload(notifications: object): Promise<void> {
    const file = path.join(service.folder, 'config.yaml')
    const settings = parse(readFileSync(file, 'utf8')) as { notifications: object }
    writeFileSync(file, stringify({ ...settings, notifications: { ...settings.notifications, ...notifications } }))
    const before = service.log.length
    service.process.kill('SIGHUP')
    await until('it is read again', () =>
      service.log.slice(before).some(({ message }) => message === 'configuration read again'),
    )
  }
  /** Every task that runs has been reported once more. */
  async function reported() {
    const lastRun = async () => (await health()).checks.workers.tasks?.stale_processing_recovery?.last_run ?? ''
    const before = await lastRun()
    await until('runs are reported', async () => (await lastRun()) > before)
    return health()
  }

  test('records no warning, and health and the command line say that nobody is warned', async () => {
    const { status: overall, checks } = await reported()
    assert.deepEqual([overall, checks.workers.expiration], ['ok', false])
    assert.ok(!(TASK in (checks.workers.tasks ?? {})))
    const printed = status()
    assert.match(printed, /^stale_processing_recovery /m)
    assert.doesNotMatch(printed, new RegExp(TASK))
    assert.deepEqual([await rows('expiration_notices'), (await warnings()).length], [0, 0])
  })

  test('warns when SIGHUP names days, and says so', async () => {
    await reload({ expiration_warning_days: [30] })
    await until('the warning is recorded', async () => (await warnings()).length === 1)
    const { expiration } = await until('its run is reported', async () => {
      const { workers } = (await health()).checks
      return TASK in (workers.tasks ?? {}) && workers
    })
    assert.equal(expiration, true)
    assert.match(status(), new RegExp(`^${TASK} +instance \\d+  last 2`, 'm'))
  })

  test('warns nobody while notifications are off', async () => {
    await reload({ enabled: false })
    // The thread of the background work learns of it a moment after the log line.
    await until('health says so', async () => !(await health()).checks.workers.expiration)
  })
})
