/** Onboarding of a team in the console, up to its first certificate by a real client. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { closeConnections } from '../support/acme-client.ts'
import { adminConfig, administrator } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { assertAccessible, ConsoleBrowser, NARROW, visit } from './browser.ts'

const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] }

describe('onboarding in the console', requireCommand('chromium-headless-shell'), () => {
  let service: TestService
  let browser: ConsoleBrowser
  before(async () => {
    service = await startTestService({
      config: {
        ...adminConfig(),
        acme: { eab_required: true },
        api: { roots_path: '/roots.pem' },
        security: { identifier_policy: { enforce_account_allowlist: true } },
      },
    })
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    closeConnections()
    await browser?.close()
    await service?.dispose()
  })

  const onboard = async (page: Page, team: string, names: string) => {
    await page.getByLabel('Team').fill(team)
    await page.getByLabel('Names').fill(names)
    await page.getByRole('button', { name: 'Onboard', exact: true }).click()
    await page.getByRole('heading', { name: `Hand-over: ${team}`, level: 1 }).waitFor()
    await page.getByText('HMAC key', { exact: true }).waitFor()
  }
  const keyOn = async (page: Page) => {
    await page.getByText('HMAC key', { exact: true }).waitFor()
    const text = (await page.locator('main').textContent()) ?? ''
    return /HMAC key\s*([\w-]{43})/.exec(text)?.[1] ?? assert.fail('the key is not shown')
  }

  test(
    'two clicks lead from the overview to a sheet, which turns green when a copied command has its certificate',
    requireCommand('lego'),
    async () => {
      const { page, complaints, close } = await browser.as('admin', CLIPBOARD)
      await page.getByRole('link', { name: 'Onboard a team' }).click()
      await page.getByLabel('Team').waitFor()
      await assertAccessible(page, 'onboarding')
      await onboard(page, 'Payments Ünit', '*.pay.test')
      await page.getByText('Waiting for the first account.', { exact: false }).waitFor()
      await page.getByText(`curl -fsS ${service.baseUrl}/roots.pem`, { exact: false }).waitFor()
      await assertAccessible(page, 'a hand-over sheet')
      await page.getByRole('combobox', { name: 'Client' }).selectOption('lego')
      await page.getByRole('button', { name: 'Copy everything' }).click()
      const sheet = String(await page.evaluate('navigator.clipboard.readText()'))
      assert.ok(sheet.includes(readFileSync(service.ca.root, 'utf8').trim()), 'the root is in the sheet')
      for (const part of [service.directoryUrl, 'payments-unit', await keyOn(page)])
        assert.ok(sheet.includes(part), part)
      await mustRun('sh', ['-ec', inThisTest(/^LEGO_CA(?:.|\n)*/m.exec(sheet)?.[0] ?? assert.fail(sheet))])
      const status = page.locator('.bar.good')
      await status.getByRole('link', { name: 'host.pay.test' }).waitFor()
      await status.getByRole('link', { name: 'admin@example.com' }).click()
      await page.getByRole('heading', { name: 'Account admin@example.com' }).waitFor()
      await page.getByText('payments-unit', { exact: true }).first().waitFor()
      assert.deepEqual(complaints, [])
      await close()
    },
  )

  /** With the root and the port of this test. */
  const inThisTest = (command: string) =>
    command
      .replace('/etc/ssl/chancery-root.pem', service.ca.root)
      .replace('--http ', `--http --http.port :${service.http01Port} --path ${service.folder}/lego `)

  test('the key stays through Back and a reload, until it is closed', async () => {
    const { page, complaints, close } = await browser.as('admin', { place: '/onboarding' })
    page.on('dialog', (dialog) => void dialog.accept())
    await onboard(page, 'Warehouse', 'store.test')
    const key = await keyOn(page)
    await page.evaluate('history.back()')
    await page.getByRole('heading', { name: 'Onboard a team' }).waitFor()
    await page.getByText('The key of Warehouse: shown once', { exact: false }).waitFor()
    await page.reload()
    await page.getByRole('link', { name: 'View', exact: true }).click()
    await page.getByText('Waiting for the first account.', { exact: false }).waitFor()
    assert.equal(await keyOn(page), key)
    await page.getByRole('button', { name: 'I have saved the key' }).click()
    await page.getByText('was shown once').waitFor()
    await page.getByText('Put the HMAC key in the place of HMAC_KEY.').waitFor()
    assert.ok(!(await page.content()).includes(key))
    assert.ok(!String(await page.evaluate('JSON.stringify(sessionStorage)')).includes(key))
    assert.deepEqual(complaints, [])
    await close()
  })

  test('signing out takes a key away that is still open', async () => {
    const { page, close } = await browser.as('admin', { place: '/onboarding' })
    page.on('dialog', (dialog) => void dialog.accept())
    await onboard(page, 'Left open', 'left.test')
    const key = await keyOn(page)
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    assert.ok(!String(await page.evaluate('JSON.stringify(sessionStorage)')).includes(key))
    await close()
  })

  test('a wrong name and a kid that is taken are said at their fields, on a phone', async () => {
    const { page, close } = await browser.as('admin', { place: '/onboarding', viewport: NARROW })
    await page.getByLabel('Team').fill('Payments Ünit')
    await page.getByLabel('Names').fill('not a name')
    await page.getByRole('button', { name: 'Onboard', exact: true }).click()
    await page.locator('.error', { hasText: 'not a name' }).waitFor()
    await page.getByLabel('Names').fill('pay.test')
    await page.getByRole('button', { name: 'Onboard', exact: true }).click()
    await page.getByText('the kid "payments-unit" is taken', { exact: false }).waitFor()
    await assertAccessible(page, 'onboarding on a phone')
    await close()
  })

  test('a registrar onboards with its own tags, and an auditor does not see the page', async () => {
    const admin = await administrator(service, 'first-of-team')
    const first = { kid: 'first-of-team', tags: ['team'], allowed_identifiers: ['*.team.test'] }
    assert.equal((await admin.send('POST', '/eab', first)).status, 201)
    const { page, complaints, close } = await browser.as('registrar', { place: '/onboarding' })
    await page.getByLabel('Expires').fill('')
    await onboard(page, 'Second of team', 'www.team.test')
    assert.match(await keyOn(page), /^[\w-]{43}$/)
    assert.deepEqual(complaints, [])
    await close()
    const other = await browser.as('auditor', { place: '/onboarding' })
    await other.page.getByText('Your role does not allow this.', { exact: false }).waitFor()
    await other.close()
  })

  test('an account is named and tagged on its page, and found by both', async () => {
    const { page, complaints, close } = await browser.as('admin', { place: '/accounts' })
    await page.getByRole('link', { name: 'admin@example.com' }).click()
    await page.getByRole('button', { name: 'Name and tags' }).click()
    const dialog = page.getByRole('dialog')
    await assertAccessible(page, 'naming an account')
    await dialog.getByLabel('Name').fill('Till systems')
    await dialog.getByLabel('Tags').fill('tills, emea')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Account Till systems' }).waitFor()
    await visit(page, '/accounts?name=till&tag=emea')
    await page.getByRole('link', { name: 'Till systems' }).waitFor()
    await visit(page, '/certificates')
    await page.getByRole('link', { name: 'Till systems' }).waitFor()
    assert.deepEqual(complaints, [])
    await close()
  })
})
