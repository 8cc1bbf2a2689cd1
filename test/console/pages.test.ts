/** Pages of accounts, credentials, policy and service: every role, both themes, wide and narrow, and hostile content. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { closeConnections, csrFor } from '../support/acme-client.ts'
import { adminConfig } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, ConsoleBrowser, type ConsoleTab, NARROW } from './browser.ts'
import { HOSTILE, type Populated, populate } from './populated.ts'

/** What an auditor must not be offered, as the names of buttons begin. */
const CHANGES =
  /^(?:Create|Delete|Revoke|Deactivate|Allow|Take back|Add|Save$|Retry|Purge|Deliver|Begin|Stop|End|Let|Rebuild|Block|Unblock|Enable|Disable|New CSR)/

describe('pages of the console', { ...requireCommand('chromium'), timeout: 600_000 }, () => {
  let service: TestService
  let browser: ConsoleBrowser
  let data: Populated
  before(async () => {
    service = await startTestService({
      config: { ...adminConfig(), crl: { enabled: true }, challenges: { http01: { max_retries: 0 } } },
    })
    data = await populate(service)
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    await browser?.close()
    closeConnections()
    await service?.dispose()
  })

  const places = () => [
    ...['/accounts', `/accounts/${data.accountId}`, '/orders', `/orders/${data.orderId}`],
    ...[`/authorizations/${data.authorizationId}`, '/eab', `/eab/${data.credentialId}`, '/identifiers'],
    ...['/csr-profiles', `/csr-profiles/${data.profileId}`, '/csr-profiles/new', '/blocked-keys', '/audit-log'],
    ...['/notifications', '/events', '/operation', '/crl', '/settings?part=server', '/users', '/tokens', '/profile'],
  ]

  async function visit(page: Page, place: string): Promise<void> {
    await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
    // The page before has a heading, too.
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50)))')
    await page.locator('main h1').first().waitFor()
    await page.getByText('Loading …').first().waitFor({ state: 'detached' })
  }

  async function tourOf(tab: ConsoleTab, role: string): Promise<void> {
    for (const place of places()) {
      await visit(tab.page, place)
      await assertAccessible(tab.page, `${place} as ${role}`)
      assert.equal(await tab.page.evaluate('window.hacked'), undefined, place)
      if (role !== 'auditor') continue
      const offered = await tab.page.locator('main button:not([disabled]), main a.button').allInnerTexts()
      assert.deepEqual(
        offered.filter((text) => CHANGES.test(text)),
        [],
        place,
      )
    }
    assert.deepEqual(tab.complaints, [])
    await tab.close()
  }

  test('an administrator finds every page in order; nothing that a client has sent is executed', async () => {
    await tourOf(await browser.as('admin', { colorScheme: 'light' }), 'admin')
  })

  test('an auditor, in the dark and on a phone, is offered nothing that would be refused', async () => {
    await tourOf(await browser.as('auditor', { colorScheme: 'dark', viewport: NARROW }), 'auditor')
  })

  test('hostile content is shown as the text that it is', async () => {
    const { page, close } = await browser.as('admin', { place: `/accounts/${data.accountId}` })
    await page.getByText(HOSTILE).first().waitFor()
    await visit(page, '/notifications')
    await page.getByRole('button', { name: HOSTILE }).click()
    await page.locator('dialog pre').getByText(HOSTILE).waitFor()
    assert.equal(await page.evaluate('window.hacked'), undefined)
    await close()
  })

  test('the key of a credential is shown once, with commands that may be pasted', async () => {
    const { page, close } = await browser.as('admin', { place: '/eab' })
    await page.getByRole('button', { name: 'Create a credential' }).click()
    const dialog = page.locator('dialog')
    await dialog.getByLabel('Key identifier').fill("it's mine")
    await dialog.getByRole('button', { name: 'Create a credential' }).click()
    await dialog.getByText('certbot').first().click()
    const command = (await dialog.locator('details pre').first().textContent()) ?? ''
    assert.match(command, /--eab-kid 'it'\\''s mine' --eab-hmac-key '[\w-]{43}'/)
    assert.ok(command.includes(`--server '${service.directoryUrl}'`), command)
    await assertAccessible(page, 'a credential that was made')
    await page.keyboard.press('Escape')
    await dialog.getByRole('button', { name: 'I have kept it' }).click()
    await page.getByRole('link', { name: "it's mine" }).waitFor()
    const key = /--eab-hmac-key '([\w-]{43})'/.exec(command)?.[1] as string
    assert.ok(!(await page.content()).includes(key))
    await close()
  })

  test('the cascade of a revocation is shown before, and the name has to be typed', async () => {
    const { page, close } = await browser.as('admin', { place: `/eab/${data.credentialId}` })
    await page.getByRole('button', { name: 'Revoke' }).click()
    const dialog = page.locator('dialog')
    await dialog.getByText('1 accounts, which can do nothing any more').waitFor()
    await dialog.getByText('1 certificates stay valid').waitFor()
    assert.equal(await dialog.getByRole('button', { name: 'Revoke' }).isDisabled(), true)
    await assertAccessible(page, 'a revocation')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    assert.equal((await data.admin.get(`/eab/${data.credentialId}`)).json.revoked, false)
    await close()
  })

  test('a profile is made in the form or as JSON, tried on a request and on certificates, and saved', async () => {
    const { page, close } = await browser.as('admin', { place: '/csr-profiles/new' })
    await page.getByLabel('Name', { exact: true }).fill('web servers')
    await page.getByLabel('Alternative names, at most').fill('1')
    await until('the JSON follows', async () => /"san_maximum": 1/.test(await page.getByLabel('JSON').inputValue()))
    await page.getByLabel('JSON').fill('{ "san_maximum": 1, "wildcard_in_san": false }')
    const wildcard = page.getByLabel('Wildcard in an alternative name')
    await until('the form follows', async () => (await wildcard.inputValue()) === 'false')
    await page.getByRole('button', { name: 'Check', exact: true }).click()
    await page.getByText('1 of 1 certificates would be refused').waitFor()
    const csr = Buffer.from(await csrFor(['a.shop.test', 'b.shop.test']), 'base64url')
    await page.locator('input[type=file]').setInputFiles({ name: 'x.der', mimeType: 'application/pkcs10', buffer: csr })
    await page.getByText('The request would be refused.').waitFor()
    await page.getByText('2 subject alternative names; the maximum is 1').last().waitFor()
    await assertAccessible(page, 'a profile that was tried')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'web servers', level: 1 }).waitFor()
    await close()
  })

  test('a refused form keeps what was typed and says what is wrong beside the field', async () => {
    const { page, close } = await browser.as('admin', { place: '/csr-profiles/new' })
    await page.getByLabel('Name', { exact: true }).fill('broken')
    await page.getByLabel('Every alternative name matches').fill('(')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.locator('.field .error').first().waitFor()
    assert.equal(await page.getByLabel('Every alternative name matches').inputValue(), '(')
    assert.equal(await page.getByLabel('Every alternative name matches').getAttribute('aria-invalid'), 'true')
    await close()
  })

  test('maintenance begins behind a confirmation, with its reason, and says who began it', async () => {
    const { page, close } = await browser.as('admin', { place: '/operation' })
    await page.getByRole('button', { name: 'Begin maintenance' }).click()
    await page.locator('dialog').getByLabel('Reason').fill('moving house')
    await page.locator('dialog').getByRole('button', { name: 'Begin maintenance' }).click()
    await page.getByText('moving house').waitFor()
    await page.getByText('ada', { exact: true }).first().waitFor()
    await page.getByRole('button', { name: 'End maintenance' }).click()
    await page.locator('dialog').getByRole('button', { name: 'End maintenance' }).click()
    await page.getByRole('button', { name: 'Begin maintenance' }).waitFor()
    await close()
  })

  test('an identifier is allowed to an account by its name alone', async () => {
    const { page, close } = await browser.as('admin', { place: `/accounts/${data.accountId}` })
    // One is new, the other in the list already.
    for (const value of ['10.1.0.0/16', '*.shop.test']) {
      await page.getByLabel('Name, address or network').fill(value)
      await page.getByRole('button', { name: 'Allow', exact: true }).click()
      await page.getByRole('button', { name: `Take back ${value}` }).click()
      await page.getByText(`${value} is taken back.`).waitFor()
    }
    await close()
  })

  test('the chain of the audit log is checked, and filters are in the address', async () => {
    const { page, close } = await browser.as('auditor', { place: '/audit-log' })
    await page.getByRole('button', { name: 'Check the chain' }).click()
    await page.getByText('whole', { exact: true }).waitFor()
    await page.getByLabel('Action').fill('eab.create')
    await page.keyboard.press('Enter')
    await page.waitForURL(/action=eab\.create/)
    await page.locator('td code', { hasText: 'eab.create' }).first().waitFor()
    assert.equal(await page.locator('td code', { hasText: 'auth.login' }).count(), 0)
    await close()
  })
})
