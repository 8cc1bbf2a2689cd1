/** `chancery import certificates`: what a restored database has forgotten can be revoked and renewed again (docs/operations/database.md). */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import type { KindReport } from '../../src/import/model.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { type Obtained, registeredClient, revoke, send, serialOf } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { catchIssuance } from '../support/clients/caught-issuance.ts'
import { untilCompared } from '../support/compared.ts'
import { readCrl } from '../support/crl.ts'
import { chancery, operate } from '../support/operator.ts'
import { aCertificate } from '../unit/shared/pki/support.ts'

describe('a certificate that the database has forgotten', () => {
  const { service, responder, client, database } = acmeScene('acme')

  const fileOf = (name: string, pem: string) => {
    const file = path.join(service.folder, `${name}.pem`)
    writeFileSync(file, pem)
    return file
  }

  /** Issued, handed out, and gone with its order as in a database of the hour before. */
  async function forgotten(name: string): Promise<Obtained & { file: string; serial: string }> {
    const obtained = await client.obtain([name], responder)
    const serial = serialOf(obtained.der)
    await untilCompared(service)
    await database.query(
      `WITH gone AS (DELETE FROM certificates WHERE der = $1 RETURNING order_id)
      DELETE FROM orders WHERE id = (SELECT order_id FROM gone)`,
      [obtained.der],
    )
    return { ...obtained, serial, file: fileOf(name, obtained.chain) }
  }

  /** @returns how many were new, known and skipped */
  async function imported(...words: string[]): Promise<[number, number, number]> {
    const { stdout, stderr } = await chancery(service, 'import', 'certificates', ...words, '--json')
    assert.notEqual(stdout, '', stderr)
    const { new: fresh, known, skipped }: KindReport = JSON.parse(stdout).certificates
    return [fresh, known, skipped]
  }

  const renewalInfo = (der: Buffer) =>
    send({ method: 'GET', url: `${client.directory['renewalInfo']}/${certIdOf(der)}` })

  test('is renewed and revoked by its account again, and stands in the CRL', async () => {
    const { der, file, serial } = await forgotten('mine.test')
    assert.equal((await revoke(client, der)).status, 404)
    assert.equal((await renewalInfo(der)).status, 404)

    const account = client.kid.split('/').at(-1) as string
    assert.deepEqual(await imported(file, '--account', account), [1, 0, 0])
    assert.equal((await renewalInfo(der)).status, 200)
    const replacing = await client.newOrder(['mine.test'], { replaces: certIdOf(der) })
    assert.equal(replacing.status, 201, replacing.text)
    const shown = JSON.parse(await operate(service, 'inspect', 'certificate', serial, '--json'))
    assert.deepEqual([shown.account_id, shown.san_values], [account, ['mine.test']])

    assert.equal((await revoke(client, der)).status, 200)
    await operate(service, 'crl', 'rebuild')
    const crl = readCrl((await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body)
    assert.ok(crl.entries.some((entry) => entry.serial === serial))
  })

  test('that was revoked is revoked again from the last CRL, and an import completes its record', async () => {
    const { der, file, serial } = await forgotten('listed.test')
    await imported(file)
    assert.match(await operate(service, 'certificates', 'revoke', serial, '--reason', '4'), /revoked/)
    assert.equal((await chancery(service, 'certificates', 'revoke', serial)).code, 1)
    await operate(service, 'crl', 'rebuild')
    const list = (await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body
    const crlFile = path.join(service.folder, 'last.crl')
    writeFileSync(crlFile, list)
    await database.query('DELETE FROM certificates WHERE der = $1', [der])

    const outcome = JSON.parse(await operate(service, 'certificates', 'revoke', '--from-crl', crlFile, '--json'))
    assert.deepEqual([outcome.recorded, outcome.revoked], [1, 0])
    assert.equal(outcome.known, outcome.entries - 1)
    await operate(service, 'crl', 'rebuild')
    const entryOf = (bytes: Buffer) => readCrl(bytes).entries.find((entry) => entry.serial === serial)
    const after = entryOf((await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body)
    assert.deepEqual(after, entryOf(list))

    assert.deepEqual(await imported(file), [1, 0, 0])
    const shown = JSON.parse(await operate(service, 'inspect', 'certificate', serial, '--json'))
    assert.deepEqual([shown.san_values, shown.status], [['listed.test'], 'revoked'])
    writeFileSync(crlFile, der)
    const wrong = await chancery(service, 'certificates', 'revoke', '--from-crl', crlFile)
    assert.equal(wrong.code, 1)
  })

  test('without an account is revoked by whoever controls its names, and by nobody else', async () => {
    const { der, file } = await forgotten('nobodys.test')
    await imported(file)
    const stranger = await registeredClient(service.directoryUrl)
    assert.equal((await revoke(stranger, der)).status, 403)
    assert.equal((await revoke(client, der)).status, 200)
  })

  test('is recorded once, among several files', async () => {
    const [one, two] = [await forgotten('one.test'), await forgotten('two.test')]
    assert.deepEqual(await imported(one.file), [1, 0, 0])
    assert.deepEqual(await imported(one.file, two.file), [1, 1, 0])
  })

  test('whose serial number is that of another one is refused', async () => {
    const { der, file } = await forgotten('twice.test')
    await imported(file)
    await database.query("UPDATE certificates SET der = '\\x00' WHERE der = $1", [der])
    const { code, stderr } = await chancery(service, 'import', 'certificates', file)
    assert.equal(code, 1)
    assert.match(stderr, /is that of another certificate/)
  })

  test('whose intent the backup caught gets its order and its account from it', async () => {
    const { der, chain, orderUrl } = await client.obtain(['caught.test'], responder)
    await untilCompared(service)
    await catchIssuance(database, der)
    const file = fileOf('caught', chain)
    assert.deepEqual(await imported(file), [0, 1, 0])
    assert.equal((await client.post(orderUrl)).json.status, 'valid')
    assert.equal((await revoke(client, der)).status, 200)
  })

  test('of another issuer, a CA certificate and no certificate are named, and the others are recorded', async () => {
    const { file, chain, der } = await forgotten('kept.test')
    const [, issuer = ''] = chain.split(/(?=-----BEGIN)/)
    const cases: [string, RegExp][] = [
      [fileOf('other', encodePem('CERTIFICATE', aCertificate())), /no issuer in this database has signed it/],
      [fileOf('issuer', issuer), /issuer\.pem: it holds no certificate but those of CAs/],
      [fileOf('text', 'no PEM'), /text\.pem: it is neither PEM/],
    ]
    const { code, stderr } = await chancery(service, 'import', 'certificates', ...cases.map(([name]) => name), file)
    assert.equal(code, 1)
    for (const [, complaint] of cases) assert.match(stderr, complaint)
    assert.equal((await renewalInfo(der)).status, 200)
  })

  test('for an account that is not there is refused, and so is a file that is not there', async () => {
    const { file, der } = await forgotten('refused.test')
    const cases: [string[], RegExp, number][] = [
      [[path.join(service.folder, 'missing.pem'), file], /missing\.pem: ENOENT/, 1],
      [[file, '--account', '01938c4e-0000-7000-8000-000000000000'], /there is no account/, 1],
      [[file, '--account', 'me'], /--account me: takes a UUID/, 2],
    ]
    for (const [words, complaint, code] of cases) {
      const result = await chancery(service, 'import', 'certificates', ...words)
      assert.deepEqual([result.code, result.stdout], [code, ''])
      assert.match(result.stderr, complaint)
    }
    assert.equal((await renewalInfo(der)).status, 404)
  })
})
