/** `chancery import certificates` with the folder of an `openssl ca`, and with files of a restore (test/acme/certificate-import.test.ts). */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import type { ImportReport, KindReport } from '../../src/import/model.ts'
import { administered } from '../support/administered.ts'
import { each } from '../support/each.ts'
import { chancery } from '../support/operator.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { aCertificate } from '../unit/shared/pki/support.ts'

interface OpensslFolder {
  folder: string
  /** @returns the file with the certificate */
  issue(name: string): Promise<string>
  revoke(file: string, reason: string): Promise<void>
}

/**
 * Makes a folder in which `openssl ca` issues and revokes: index.txt, newcerts and what belongs to them.
 * @param issuer PEM files of a CA
 */
function makeOpensslFolder(folder: string, issuer: { certificate: string; key: string }): OpensslFolder {
  const file = (name: string) => path.join(folder, name)
  mkdirSync(file('newcerts'), { recursive: true })
  writeFileSync(file('index.txt'), '')
  const config = `
    [ca]
    default_ca = here
    [here]
    database = ${file('index.txt')}
    new_certs_dir = ${file('newcerts')}
    certificate = ${issuer.certificate}
    private_key = ${issuer.key}
    rand_serial = yes
    default_md = sha256
    default_days = 30
    policy = any
    copy_extensions = copy
    x509_extensions = leaf
    [any]
    commonName = supplied
    [leaf]
    basicConstraints = CA:FALSE
    [req]
    distinguished_name = name
    [name]`
  writeFileSync(file('openssl.cnf'), config.replaceAll(/^ +/gm, ''))
  const openssl = (command: string, ...args: string[]) =>
    mustRun('openssl', [command, '-config', file('openssl.cnf'), ...args])
  return {
    folder,
    async issue(name) {
      const [key, csr, out] = [file(`${name}.key`), file(`${name}.csr`), file(`${name}.out`)]
      const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key]
      await openssl('req', '-new', ...ec, '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-out', csr)
      await openssl('ca', '-batch', '-notext', '-in', csr, '-out', out)
      const serial = readFileSync(file('index.txt'), 'utf8').trimEnd().split('\t').at(-3)
      return file(`newcerts/${serial}.pem`)
    },
    revoke: async (certificate, reason) => void (await openssl('ca', '-revoke', certificate, '-crl_reason', reason)),
  }
}

const AFFILIATION_CHANGED = 3

describe('coming from openssl ca', requireCommand('openssl'), () => {
  const folder = temporaryFolder()
  const { service, sql } = administered(() => sharedService('admin'))
  let former: OpensslFolder
  let files: string[]
  before(async () => {
    const { intermediate: certificate, intermediateKey: key } = service.ca
    former = makeOpensslFolder(path.join(folder, 'ca'), { certificate, key })
    files = []
    for (const name of ['one.test', 'two.test', 'three.test']) files.push(await former.issue(name))
    await former.revoke(files[1] as string, 'affiliationChanged')
  })

  const certificates = () =>
    sql(
      `SELECT encode(serial_number, 'hex') AS serial, names, revocation_reason AS reason, revoked_at FROM certificates
        WHERE names <> '{}' ORDER BY names`,
    )
  const importing = async (...words: string[]): Promise<{ code: number | null; report: ImportReport }> => {
    const { code, stdout } = await chancery(service, 'import', 'certificates', ...words, '--json')
    return { code, report: JSON.parse(stdout) }
  }
  const books = ({ read, new: fresh, known, skipped }: Partial<KindReport> = {}) => ({ read, fresh, known, skipped })

  test('a dry run counts, and changes nothing', async () => {
    const { code, report } = await importing(former.folder, '--dry-run')
    assert.equal(code, 0)
    assert.deepEqual(books(report.certificates), { read: 3, fresh: 3, known: 0, skipped: 0 })
    assert.equal(report.revocations, 1)
    assert.deepEqual(await certificates(), [])
  })

  test('the books are equal: each certificate once, and the revocation with time and reason', async () => {
    const { report } = await importing(path.join(former.folder, 'index.txt'))
    assert.deepEqual(books(report.certificates), { read: 3, fresh: 3, known: 0, skipped: 0 })
    const rows = await certificates()
    assert.deepEqual(each(rows, 'names', 'reason'), [
      [['one.test'], null],
      [['three.test'], null],
      [['two.test'], AFFILIATION_CHANGED],
    ])
    const [, , time = ''] =
      readFileSync(path.join(former.folder, 'index.txt'), 'utf8').match(/^R\t(\S+)\t(\d+Z)/m) ?? []
    const revokedAt = String((rows[2]?.['revoked_at'] as Date | undefined)?.toISOString()).replaceAll(
      /[-:T]|\.000/g,
      '',
    )
    assert.equal(revokedAt.slice(2), time)
  })

  test('a second run finds everything known', async () => {
    const { report } = await importing(former.folder)
    assert.deepEqual(books(report.certificates), { read: 3, fresh: 0, known: 3, skipped: 0 })
    assert.equal(report.revocations, 0)
  })

  test('a revocation that came later comes with the next run', async () => {
    await former.revoke(files[2] as string, 'superseded')
    const { report } = await importing(former.folder)
    assert.deepEqual(books(report.certificates), { read: 3, fresh: 0, known: 3, skipped: 0 })
    assert.equal(report.revocations, 1)
  })

  test('the index counts for a file that is named alone, or was met without it before', async () => {
    const alone = await former.issue('alone.test')
    await former.revoke(alone, 'superseded')
    const copy = path.join(folder, 'copy.pem')
    writeFileSync(copy, readFileSync(alone))
    assert.equal((await importing(alone, '--dry-run')).report.revocations, 1)
    for (const more of [['--dry-run'], []]) {
      const { report } = await importing(copy, former.folder, ...more)
      assert.deepEqual([report.certificates?.new, report.revocations], [1, 1])
    }
    const row = (await certificates()).find((one) => String(one['names']) === 'alone.test')
    assert.equal(row?.['reason'], 4)
  })

  test('what cannot be taken over is named, and stops nothing', async () => {
    const mixed = path.join(folder, 'mixed')
    mkdirSync(mixed)
    writeFileSync(path.join(mixed, 'e-notes.pem'), 'Certificates of the web team\n')
    const four = new X509Certificate(readFileSync(await former.issue('four.test')))
    writeFileSync(path.join(mixed, 'a-four.der'), four.raw)
    writeFileSync(path.join(mixed, 'b-other.der'), aCertificate())
    writeFileSync(path.join(mixed, 'c-garbled.crt'), '-----BEGIN CERTIFICATE-----\nnone')
    writeFileSync(path.join(mixed, 'd-key.pem'), readFileSync(service.ca.intermediateKey))
    writeFileSync(path.join(mixed, 'index.txt'), 'V\tnonsense\n')
    appendFileSync(path.join(mixed, 'index.txt'), 'V\t400101000000Z\t\t0ABC\tunknown\t/CN=lost.test\n')
    const { code, report } = await importing(mixed)
    assert.equal(code, 1)
    assert.deepEqual(books(report.certificates), { read: 6, fresh: 1, known: 0, skipped: 5 })
    const reasons = report.certificates?.first_skipped.map(({ reason }) => reason).join('\n') ?? ''
    assert.match(reasons, /it is neither PEM, which has a line -----BEGIN CERTIFICATE-----, nor DER/)
    assert.match(reasons, /issuer unknown/)
    assert.match(reasons, /block 1, CERTIFICATE, has no END line/)
    assert.match(reasons, /no line of an index/)
    assert.match(reasons, /index\.txt names it, and no file below its folder has it/)
  })

  test('a path that is not there is refused', async () => {
    const { code, stderr } = await chancery(service, 'import', 'certificates', path.join(folder, 'missing'))
    assert.equal(code, 1)
    assert.match(stderr, /missing: ENOENT, there is no such file/)
  })
})
