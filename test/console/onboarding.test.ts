/** Onboarding of a team in the console, up to its first certificate by a real client. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { administrator } from '../support/admin.ts'
import { accountIdOf, boundClient, type MadeCredential, made } from '../support/bound.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { sharedService } from '../support/shared-service.ts'
import { assertAccessible, becomes, carryOut, confirm, NARROW, press, sees, visit } from './browser.ts'
import { consoleOf } from './suite.ts'

const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] }

describe('onboarding in the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('strict console'))

  const onboard = async (page: Page, team: string, names: string) => {
    await page.getByLabel('Team').fill(team)
    await page.getByLabel('Names').fill(names)
    await press(page, 'Onboard')
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
      const { page } = await at.browser.as('admin', CLIPBOARD)
      await page.getByRole('link', { name: 'Onboard a team' }).click()
      await page.getByLabel('Team').waitFor()
      await assertAccessible(page, 'onboarding')
      await onboard(page, 'Payments Ünit', '*.pay.test')
      await sees(page, 'Waiting for the first account.', `curl -fsS ${at.service.baseUrl}/roots.pem`)
      await assertAccessible(page, 'a hand-over sheet')
      await page.getByRole('combobox', { name: 'Client' }).selectOption('lego')
      await press(page, 'Copy everything')
      const sheet = String(await page.evaluate('navigator.clipboard.readText()'))
      assert.ok(sheet.includes(readFileSync(at.service.ca.root, 'utf8').trim()), 'the root is in the sheet')
      for (const part of [at.service.directoryUrl, 'payments-unit', await keyOn(page)])
        assert.ok(sheet.includes(part), part)
      await mustRun('sh', ['-ec', inThisTest(/^LEGO_CA(?:.|\n)*/m.exec(sheet)?.[0] ?? assert.fail(sheet))])
      const status = page.locator('.bar.good')
      await status.getByRole('link', { name: 'host.pay.test' }).waitFor()
      await status.getByRole('link', { name: 'admin@example.com' }).click()
      await page.getByRole('heading', { name: 'Account admin@example.com' }).waitFor()
      await page.getByText('payments-unit', { exact: true }).first().waitFor()
    },
  )

  /** With the root and the port of this test. */
  const inThisTest = (command: string) =>
    command
      .replace('/etc/ssl/chancery-root.pem', at.service.ca.root)
      .replace('--http ', `--http --http.port :${at.service.http01Port} --path ${at.service.folder}/lego `)

  test('nothing is copied before it is known which name it is for', async () => {
    const { page } = await at.browser.as('admin', '/onboarding')
    let answer = () => {}
    const held = new Promise<void>((resolve) => {
      answer = resolve
    })
    await page.route(/\/api\/eab\/[^/]+\/allowed-identifiers/, (route) => held.then(() => route.continue()))
    await onboard(page, 'Slow', '*.slow.test')
    const copy = page.getByRole('button', { name: 'Copy everything' })
    await page.getByText('I have saved the key').waitFor()
    assert.equal(await copy.count(), 0)
    answer()
    await copy.waitFor()
    await sees(page, 'host.slow.test')
  })

  test('the key stays through Back and a reload, until it is closed', async () => {
    const { page } = await at.browser.as('admin', '/onboarding')
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
    await press(page, 'I have saved the key')
    await page.getByText('was shown once').waitFor()
    await page.getByText('Put the HMAC key in the place of HMAC_KEY.').waitFor()
    assert.ok(!(await page.content()).includes(key))
    assert.ok(!String(await page.evaluate('JSON.stringify(sessionStorage)')).includes(key))
  })

  test('signing out takes a key away that is still open', async () => {
    const { page } = await at.browser.as('admin', '/onboarding')
    page.on('dialog', (dialog) => void dialog.accept())
    await onboard(page, 'Left open', 'left.test')
    const key = await keyOn(page)
    await press(page, 'Sign out')
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    assert.ok(!String(await page.evaluate('JSON.stringify(sessionStorage)')).includes(key))
  })

  test('a wrong name and a kid that is taken are said at their fields, on a phone', async () => {
    const { page } = await at.browser.as('admin', { place: '/onboarding', viewport: NARROW })
    await page.getByLabel('Team').fill('Payments Ünit')
    await page.getByLabel('Names').fill('not a name')
    await press(page, 'Onboard')
    await page.locator('.error', { hasText: 'not a name' }).waitFor()
    await page.getByLabel('Names').fill('pay.test')
    await press(page, 'Onboard')
    await page.getByText('the kid "payments-unit" is taken', { exact: false }).waitFor()
    await assertAccessible(page, 'onboarding on a phone')
  })

  test('a registrar onboards with its own tags, and an auditor does not see the page', async () => {
    const admin = await administrator(at.service, 'first-of-team')
    const first = { kid: 'first-of-team', tags: ['team'], allowed_identifiers: ['*.team.test'] }
    assert.equal((await admin.send('POST', '/eab', first)).status, 201)
    const { page } = await at.browser.as('registrar', '/onboarding')
    await page.getByLabel('Expires').fill('')
    await onboard(page, 'Second of team', 'www.team.test')
    assert.match(await keyOn(page), /^[\w-]{43}$/)
    const other = await at.browser.as('auditor', '/onboarding')
    await other.page.getByText('Your role does not allow this.', { exact: false }).waitFor()
  })

  test('an account is named and tagged on its page, and found by both', async () => {
    const { page } = await at.browser.as('admin', '/accounts')
    await page.getByRole('link', { name: 'admin@example.com' }).click()
    await press(page, 'Name and tags')
    const dialog = page.getByRole('dialog')
    await assertAccessible(page, 'naming an account')
    await dialog.getByLabel('Name').fill('Till systems')
    await dialog.getByLabel('Tags').fill('tills, emea')
    await press(dialog, 'Save')
    await page.getByRole('heading', { name: 'Account Till systems' }).waitFor()
    await visit(page, '/accounts?name=till&tag=emea')
    await page.getByRole('link', { name: 'Till systems' }).waitFor()
    await visit(page, '/certificates')
    await page.getByRole('link', { name: 'Till systems' }).waitFor()
  })

  test('an account shows what its credential grants, and has a profile of its own beside it', async () => {
    const admin = await administrator(at.service, 'grace')
    const credential = await made<MadeCredential>(admin, '/eab', { kid: 'team-mail' })
    const account = accountIdOf(await boundClient(at.service, credential))
    // More than one page of them, the wanted ones at the end.
    const others = Array.from({ length: 22 }, (_, n) => `profile ${n}`)
    for (const name of ['all servers', 'mail servers', ...others])
      await made(admin, '/csr-profiles', { name, profile_data: {} })
    const { page } = await at.browser.as('admin', `/eab/${credential.id}`)
    await page.getByLabel('Profile for its accounts').selectOption({ label: 'all servers' })
    await press(page, 'Change the profile')
    await page.getByRole('dialog').getByText('all servers', { exact: false }).waitFor()
    await confirm(page, 'Change the profile')
    await page.getByRole('link', { name: 'all servers' }).waitFor()
    await page.getByLabel('Name, address or network').fill('host-0.test')
    await press(page, 'Allow')
    await page.getByText('host-0.test is allowed.').waitFor()

    await page.evaluate(`location.hash = '#/accounts/${account}'`)
    const own = page.getByLabel('Own profile')
    await page.getByRole('link', { name: 'through its credential' }).nth(1).waitFor()
    await becomes(() => page.getByRole('button', { name: 'Remove host-0.test' }).count(), 0)
    await becomes(() => own.inputValue(), '')
    await own.selectOption({ label: 'mail servers' })
    await carryOut(page, 'Change the profile')
    await page.getByRole('link', { name: 'mail servers' }).waitFor()
    await becomes(() => page.getByRole('link', { name: 'through its credential' }).count(), 1)
    await own.selectOption('')
    await carryOut(page, 'Change the profile')
    await page.getByRole('link', { name: 'all servers' }).waitFor()
    await assertAccessible(page, 'an account with grants of its credential')
    await page.getByRole('link', { name: 'all servers' }).click()
    await carryOut(page, 'Delete', 'Delete', { 'Type all servers to confirm': 'all servers' })
    await page.getByRole('link', { name: 'mail servers' }).waitFor()
    await becomes(() => page.getByRole('link', { name: 'all servers' }).count(), 0)
  })
})
