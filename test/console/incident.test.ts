/** An incident in the console: from a leaked key to the report, in five clicks. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import { registeredClient, startResponder } from '../support/acme-client.ts'
import { P256_KEY, RSA_KEY, type TestKey } from '../support/keys.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { assertAccessible, becomes, press, sees, visit } from './browser.ts'
import { consoleOf } from './suite.ts'

const FIELD = 'Key, certificate, CSR, account, kid or name'

describe('an incident in the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  before(async () => {
    const client = await registeredClient(at.service.directoryUrl)
    const responder = await startResponder(at.service.http01Port)
    await client.obtain(['one.test'], responder)
    await client.obtain(['two.test'], responder)
    await responder.close()
  })

  /** The longest line of the key: whatever carries it has the key. */
  const secretOf = (pem: string) => pem.split('\n').sort((a, b) => b.length - a.length)[0] as string

  const FORMS: [name: string, key: TestKey, form: (key: TestKey) => string][] = [
    ['PKCS #8 EC', P256_KEY, ({ privateKey }) => String(privateKey.export({ format: 'pem', type: 'pkcs8' }))],
    ['SEC 1', P256_KEY, ({ privateKey }) => String(privateKey.export({ format: 'pem', type: 'sec1' }))],
    ['PKCS #8 RSA', RSA_KEY, ({ privateKey }) => String(privateKey.export({ format: 'pem', type: 'pkcs8' }))],
    ['PKCS #1', RSA_KEY, ({ privateKey }) => String(privateKey.export({ format: 'pem', type: 'pkcs1' }))],
    ['JWK', P256_KEY, ({ privateKey }) => JSON.stringify(privateKey.export({ format: 'jwk' }), null, 1)],
  ]
  test("a private key in any form becomes its public key's SHA-256 in the browser, and no request carries it", async () => {
    const { page } = await at.browser.as('admin', '/incident')
    const sent: string[] = []
    page.on('request', (request) => sent.push(`${request.url()} ${request.postData() ?? ''}`))
    for (const [name, key, form] of FORMS) {
      await visit(page, '/nothing')
      await visit(page, '/incident')
      sent.length = 0
      const text = form(key)
      await page.getByLabel(FIELD).fill(text)
      await page.getByText('That was a private key', { exact: false }).waitFor()
      await press(page, 'Examine')
      await page.getByText('SHA-256 of the public key', { exact: true }).waitFor()
      const count = key === P256_KEY ? 2 : 0
      await page.getByText(`${count} are unexpired and not revoked`).waitFor()
      assert.ok(
        sent.some((request) => request.includes('/incidents/examine')),
        name,
      )
      const secret = name === 'JWK' ? (key.privateKey.export({ format: 'jwk' }).d as string) : secretOf(text)
      assert.deepEqual(
        sent.filter((request) => request.includes(secret)),
        [],
        name,
      )
    }
  })

  test('a private key that the browser cannot read is refused there', async () => {
    const { page } = await at.browser.as('admin', '/incident')
    for (const text of [
      '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----',
      `MC4CAQAwBQYDK2VwBCIEI${'A'.repeat(43)}`,
    ]) {
      await page.getByLabel(FIELD).fill(text)
      await page.getByText('not sent', { exact: false }).waitFor()
      await becomes(() => page.getByLabel(FIELD).inputValue(), '')
    }
  })

  test('a leaked key in five clicks, open again after a reload, with its CRL and its report', async () => {
    const { page } = await at.browser.as('admin', '/')
    let clicks = 0
    const click = async (name: string, role: 'button' | 'link' = 'button') => {
      clicks++
      await page.getByRole(role, { name, exact: true }).last().click()
    }
    await click('Incident', 'link')
    await page.getByLabel(FIELD).fill(String(P256_KEY.publicKey.export({ format: 'pem', type: 'spki' })))
    await click('Examine')
    await page.getByText('2 are unexpired and not revoked').waitFor()
    await assertAccessible(page, 'what an incident hits')
    await click('Begin …')
    const dialog = page.getByRole('dialog')
    await sees(dialog, '2 certificates will be revoked', 'The key will be blocked')
    await dialog.getByLabel('Type 2 to confirm').fill('2')
    await click('Begin')
    await page.getByRole('heading', { name: 'Revocation', exact: true }).waitFor()
    assert.equal(clicks, 4)
    await page.reload()
    await page.getByText('Published: every list that is served', { exact: false }).waitFor()
    await page.getByText('blocked', { exact: true }).waitFor()
    await assertAccessible(page, 'an incident at its end')
    const download = page.waitForEvent('download')
    await click('Save as text')
    const report = readFileSync(await (await download).path(), 'utf8')
    assert.match(report, /Reason: +keyCompromise[\s\S]*contains the last revocation[\s\S]*revoked +(?:one|two)\.test/)
    // A proxy may end a reply early, and in order.
    await page.route('**/report', async (route) => {
      const reply = await route.fetch()
      await route.fulfill({ response: reply, body: (await reply.text()).trimEnd().split('\n').slice(0, -1).join('\n') })
    })
    await press(page, 'Save as JSON')
    await page.getByText('The report was cut off on its way', { exact: false }).waitFor()
    await page.unroute('**/report')
  })

  test('a certificate that an incident leaves valid is red, by name, and tried again for another reason', async () => {
    const client = await registeredClient(at.service.directoryUrl)
    const responder = await startResponder(at.service.http01Port)
    for (const name of ['left.test', 'gone.test']) await client.obtain([name], responder, { key: RSA_KEY })
    await responder.close()
    // Reading it fails, so that its key cannot be blocked with it.
    await at.sql("UPDATE certificates SET der = '\\x30' WHERE names = '{left.test}'")
    const { page } = await at.browser.as('admin', '/incident')
    await page.getByLabel(FIELD).fill(String(RSA_KEY.publicKey.export({ format: 'pem', type: 'spki' })))
    await press(page, 'Examine')
    await press(page, 'Begin …')
    await page.getByRole('dialog').getByLabel('Type 2 to confirm').fill('2')
    await page.getByRole('dialog').getByRole('button', { name: 'Begin', exact: true }).click()
    await sees(
      page,
      '1 of 2 certificates are NOT revoked',
      'Ended, not all revoked',
      'left.test',
      'another reason revokes',
    )
    assert.equal(await page.getByText('Done', { exact: true }).count(), 0)
    await assertAccessible(page, 'an incident that has left something')
    const incident = page.url()
    await page.getByRole('link', { name: 'Try again …', exact: true }).click()
    await press(page, 'Preview')
    await sees(page, '1 certificate would be revoked')
    await press(page, 'Revoke them …')
    await page.getByRole('dialog').getByLabel('Type 1 to confirm').fill('1')
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke them', exact: true }).click()
    await sees(page, 'Done 1 of 1')
    await page.goto(incident)
    await page.getByRole('heading', { name: 'Revocation', exact: true }).waitFor()
    await sees(page, 'Done 2 of 2')
    assert.equal(await page.getByText('NOT revoked', { exact: false }).count(), 0)
  })

  test('an auditor sees what a key hits and how an incident went, and can begin none', async () => {
    const { page } = await at.browser.as('auditor', '/incident')
    await page.getByLabel(FIELD).fill('one.test')
    await press(page, 'Examine')
    await page.getByText('0 are unexpired and not revoked').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Begin …' }).count(), 0)
  })
})
