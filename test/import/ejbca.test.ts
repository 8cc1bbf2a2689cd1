/**
 * `chancery import ejbca`. EJBCA itself does not run in the tests: its tables are made here from what its documentation and
 * its SQL scripts say, with certificates that this CA has signed.
 */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { ImportReport, KindReport } from '../../src/import/model.ts'
import { administered } from '../support/administered.ts'
import { addressOf, type TestDatabase, testDatabase } from '../support/database.ts'
import { each } from '../support/each.ts'
import { issueFormerly } from '../support/former-ca.ts'
import { chancery } from '../support/operator.ts'
import { withQuery } from '../support/revoked.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const KEY_COMPROMISE = 1
const REMOVE_FROM_CRL = 8
const REVOKED_AT = Date.UTC(2026, 0, 15, 12, 30)
const [ACTIVE, NOTIFIED, REVOKED, INACTIVE] = [20, 21, 40, 10]

/** A row of CertificateData. */
interface Row {
  fingerprint: string
  base64Cert: string
  status: number
  revocationDate: number
  revocationReason: number
}

describe('coming from EJBCA', () => {
  const folder = temporaryFolder()
  const { service, sql } = administered(() => sharedService('admin'))
  let former: TestDatabase
  let rows: Row[]

  before(async () => {
    const row = async (name: string, status: number, revocationDate = -1, revocationReason = -1): Promise<Row> => {
      const { der } = await issueFormerly(service.ca, [name])
      // In lines of 64, as EJBCA keeps it.
      const base64Cert = der.toString('base64').replaceAll(/(.{64})/g, '$1\n')
      return { fingerprint: name, base64Cert, status, revocationDate, revocationReason }
    }
    rows = [
      await row('active.test', ACTIVE),
      await row('held.test', NOTIFIED, REVOKED_AT, REMOVE_FROM_CRL),
      await row('inactive.test', INACTIVE),
      await row('revoked.test', REVOKED, REVOKED_AT, KEY_COMPROMISE),
      { ...(await row('garbled.test', ACTIVE)), base64Cert: '-----BEGIN CERTIFICATE-----\n%%%' },
    ]
    former = await testDatabase()
    await withQuery(former.connection, async (query) => {
      const common = 'rowversion integer NOT NULL DEFAULT 0, rowprotection text'
      await query(`CREATE TABLE CertificateData (
        fingerprint text PRIMARY KEY, base64Cert text, status integer NOT NULL, revocationDate bigint NOT NULL,
        revocationReason integer NOT NULL, username text, ${common})`)
      await query(`CREATE TABLE Base64CertData (fingerprint text PRIMARY KEY, base64Cert text, ${common})`)
      for (const [at, { fingerprint, base64Cert, status, revocationDate, revocationReason }] of rows.entries()) {
        // The first lies apart, as `database.useSeparateCertificateTable` has it.
        const isApart = at === 0
        await query('INSERT INTO CertificateData VALUES ($1, $2, $3, $4, $5)', [
          fingerprint,
          isApart ? null : base64Cert,
          status,
          revocationDate,
          revocationReason,
        ])
        if (isApart) await query('INSERT INTO Base64CertData VALUES ($1, $2)', [fingerprint, base64Cert])
      }
    })
  })
  after(async () => {
    await former?.drop()
  })

  const importing = async (...words: string[]): Promise<ImportReport> => {
    const { stdout, stderr } = await chancery(service, 'import', 'ejbca', ...words, '--json')
    assert.notEqual(stdout, '', stderr)
    return JSON.parse(stdout)
  }
  const file = (name: string, text: string) => {
    writeFileSync(path.join(folder, name), text)
    return path.join(folder, name)
  }
  const books = ({ read, new: fresh, known, skipped }: Partial<KindReport> = {}) => ({ read, fresh, known, skipped })

  test('its database: a dry run counts, and changes nothing', async () => {
    const report = await importing('--from', addressOf(former.connection), '--dry-run')
    assert.deepEqual(books(report.certificates), { read: 5, fresh: 3, known: 0, skipped: 2 })
  })

  test('its database: certificates in use, one that was on hold, and a revocation with its time', async () => {
    const report = await importing('--from', addressOf(former.connection))
    assert.deepEqual(books(report.certificates), { read: 5, fresh: 3, known: 0, skipped: 2 })
    assert.equal(report.revocations, 1)
    assert.deepEqual(report.certificates?.first_skipped, [
      {
        name: 'certificate garbled.test',
        reason: 'base64Cert is empty or not base64; is it in the table Base64CertData?',
      },
      { name: 'certificate inactive.test', reason: 'its status is 10' },
    ])
    const recorded = await sql(
      "SELECT names, revocation_reason AS reason, revoked_at AS at FROM certificates WHERE names <> '{}' ORDER BY names",
    )
    assert.deepEqual(each(recorded, 'names', 'reason', 'at'), [
      [['active.test'], null, null],
      [['held.test'], null, null],
      [['revoked.test'], KEY_COMPROMISE, new Date(REVOKED_AT)],
    ])
  })

  test('an export as CSV, with other columns and quoted lines, is the same', async () => {
    const header = 'username,serialNumber,STATUS,fingerprint,base64Cert,revocationDate,revocationReason\r\n'
    const lines = rows.map(
      (row) =>
        `"a ""b"", c",1,${row.status},${row.fingerprint},"${row.base64Cert}",${row.revocationDate},${row.revocationReason}\r\n`,
    )
    const report = await importing('--csv', file('export.csv', header + lines.join('')))
    assert.deepEqual(books(report.certificates), { read: 5, fresh: 0, known: 3, skipped: 2 })
    assert.equal(report.revocations, 0)
  })

  test('an export that was cut short names the row that has lost its columns', async () => {
    const header = 'fingerprint,base64Cert,status,revocationDate,revocationReason\n'
    const [row] = rows
    const report = await importing('--csv', file('cut.csv', `${header}cut.test,"${row?.base64Cert}"`))
    assert.deepEqual(report.certificates?.first_skipped, [
      { name: 'certificate cut.test', reason: 'it has no status; was the file cut short here?' },
    ])
  })

  test('an export as mysql --batch writes it is the same', async () => {
    const header = 'fingerprint\tbase64Cert\tstatus\trevocationDate\trevocationReason\n'
    const lines = rows.map((row) =>
      [
        row.fingerprint,
        row.base64Cert.replaceAll('\n', '\\n'),
        row.status,
        row.revocationDate,
        row.revocationReason,
      ].join('\t'),
    )
    const report = await importing('--csv', file('export.tsv', `${header}${lines.join('\n')}\n`))
    assert.deepEqual(books(report.certificates), { read: 5, fresh: 0, known: 3, skipped: 2 })
  })

  test('what cannot be read as a whole is refused with a sentence', async () => {
    const cases: [words: string[], complaint: RegExp][] = [
      [['--csv', file('short.csv', 'fingerprint,status\n')], /does not name the column base64Cert, revocationDate/],
      [['--csv', file('open.csv', 'fingerprint,base64Cert,status,revocationDate,revocationReason\n"a')], /has no end/],
      [['--from', 'postgres://reader:secret@db.test/ejbca'], /takes no password/],
      [['--from', 'mysql://db.test/ejbca'], /takes an address such as postgres:/],
      [[], /needs --from or --csv/],
    ]
    for (const [words, complaint] of cases) {
      const { code, stderr } = await chancery(service, 'import', 'ejbca', ...words)
      assert.notEqual(code, 0)
      assert.match(stderr, complaint)
      assert.doesNotMatch(stderr, /secret/)
    }
  })
})
