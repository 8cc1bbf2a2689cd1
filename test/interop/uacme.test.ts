/**
 * uacme obtains, renews and revokes certificates and keeps its account (RFC 8555, http-01).
 *
 * Over plain HTTP: Debian's uacme trusts the authorities of the system only, and tests install none there.
 */

import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { startChallengeFolder } from '../support/http01-responder.ts'
import { type IssuedChecks, issuedChecks, SUPERSEDED } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'

const HOOK = '/usr/share/uacme/uacme.sh'

describe('uacme', requireCommand('uacme'), () => {
  const names = ['uacme-a.test', 'uacme-b.test']
  let service: TestService
  let database: pg.Client
  let checks: IssuedChecks
  let folder: string
  let challenges: string
  let closeFolder: () => Promise<void>
  let first: X509Certificate
  let second: X509Certificate
  before(async () => {
    service = await startTestService({ fronts: 1 })
    database = new pg.Client(service.database.connection)
    await database.connect()
    checks = issuedChecks(service.ca.root, async (sql, values) => (await database.query(sql, [...values])).rows)
    folder = path.join(service.folder, 'uacme')
    challenges = path.join(service.folder, 'challenges')
    mkdirSync(challenges)
    closeFolder = await startChallengeFolder(service.http01Port, challenges)
  })
  after(async () => {
    await closeFolder?.()
    await database?.end()
    await service?.dispose()
  })

  const uacme = (...args: string[]) =>
    mustRun('uacme', ['--yes', '--confdir', folder, '--acme-url', service.directoryUrl, ...args], {
      env: { UACME_CHALLENGE_PATH: challenges },
    })
  const chain = () => path.join(folder, names[0] ?? '', 'cert.pem')

  test('registers and obtains a certificate for two names', async () => {
    await uacme('--type', 'EC', 'new', 'admin@uacme.test')
    await uacme('--type', 'EC', '--hook', HOOK, 'issue', ...names)
    first = checks.checkFile(chain(), names)
  })

  test('renews it', async () => {
    await uacme('--force', '--no-ocsp', '--hook', HOOK, 'issue', ...names)
    second = checks.checkFile(chain(), names, first)
  })

  test('revokes the one it holds, with a reason, and no other', async () => {
    await uacme('--reason', String(SUPERSEDED), 'revoke', chain())
    await checks.assertRevoked(second, SUPERSEDED)
    await checks.assertNotRevoked(first)
  })

  test('revokes with the key of a certificate (§7.6)', async () => {
    await uacme('--hook', HOOK, 'issue', ...names)
    const third = checks.checkFile(chain(), names, second)
    await uacme('revoke', chain(), path.join(folder, 'private', names[0] ?? '', 'key.pem'))
    await checks.assertRevoked(third, 0)
  })

  test('changes the contact of its account (§7.3.2)', async () => {
    await uacme('update', 'second@uacme.test')
    assert.deepEqual((await checks.accountOf(first)).contacts, ['mailto:second@uacme.test'])
  })

  test('changes the key of its account and goes on with the new one (§7.3.5)', async () => {
    await uacme('--type', 'RSA', 'newkey')
    assert.equal((await checks.accountOf(first)).keyVersion, 2)
    await uacme('--hook', HOOK, 'issue', ...names)
    assert.equal((await checks.accountOf(checks.checkFile(chain(), names, second))).keyVersion, 2)
  })

  test('deactivates its account (§7.3.6)', async () => {
    await uacme('deactivate')
    assert.equal((await checks.accountOf(first)).status, 'deactivated')
  })
})
