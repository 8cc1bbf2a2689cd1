/** Signing in and out of the console, sessions that end in the middle of work, and an API that is slow or fails. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { adminRequest } from '../support/admin.ts'
import { WAIT_MS } from '../support/patience.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, type ConsoleTab, carryOut, press, signInOn } from './browser.ts'
import { consoleOf } from './suite.ts'

describe('a session of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))

  const password = () => at.browser.passwords.get('admin') as string
  const endSessions = () => at.sql('DELETE FROM admin_sessions')
  /** As if the tab had been opened so much earlier. */
  const endIn = ({ page }: ConsoleTab, ms: number) =>
    page.evaluate(`{
      const session = JSON.parse(sessionStorage.getItem('chancery.session'))
      sessionStorage.setItem('chancery.session', JSON.stringify({ ...session, endsAt: Date.now() + ${ms} }))
    }`)

  /** An answer between the two steps makes the page store the true end again, so they are repeated. */
  const reloadedAt = (tab: ConsoleTab, ms: number, shown: Locator) =>
    until('the page shows it', async () => {
      await endIn(tab, ms)
      await tab.page.reload()
      return shown.waitFor({ timeout: WAIT_MS / 6 }).then(
        () => true,
        () => false,
      )
    })

  test('a wrong password is said at the form; the right one opens the page that was asked for', async () => {
    const { page } = await at.browser.open('/certificates')
    await signInOn(page, 'ada', 'wrong')
    await page.getByRole('alert').getByText('The username or the password is wrong.').waitFor()
    await assertAccessible(page, 'sign-in')
    await page.getByLabel('Password').fill(password())
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Certificates', level: 1 }).waitFor()
    assert.deepEqual(await page.context().cookies(), [])
    await press(page, 'Sign out')
    await page.getByRole('heading', { name: 'Chancery', level: 1 }).waitFor()
    assert.equal(await page.evaluate('sessionStorage.length'), 0)
  })

  test('a session that ends during work is renewed over the page, and the work goes on', async () => {
    const { page } = await at.browser.as('admin', '/bulk-revocations/new')
    await page.getByLabel('Exact name').fill('typed.example.test')
    await endSessions()
    // A request that the page sends by itself may have opened the dialog already.
    await page.getByRole('button', { name: 'Preview' }).dispatchEvent('click')
    const dialog = page.getByRole('dialog', { name: 'Sign in again' })
    await dialog.getByText('nothing that you typed is lost', { exact: false }).waitFor()
    await assertAccessible(page, 'sign-in over the page')
    await page.keyboard.press('Escape')
    await dialog.getByLabel('Password').fill(password())
    await press(dialog, 'Sign in')
    // The request that was refused is sent again.
    await page.getByText('No matches that are neither', { exact: false }).waitFor()
    await becomes(() => page.getByLabel('Exact name').inputValue(), 'typed.example.test')
  })

  test('another user who signs in gets a page of its own', async () => {
    const { page } = await at.browser.as('admin', '/bulk-revocations/new')
    await endSessions()
    await page.getByLabel('Exact name').fill('typed.example.test')
    await page.getByRole('button', { name: 'Preview' }).dispatchEvent('click')
    const dialog = page.getByRole('dialog')
    await signInOn(dialog, 'otto', at.browser.passwords.get('auditor') as string)
    await page.getByText('Your role does not allow this', { exact: false }).waitFor()
  })

  test('two minutes before its end the page says so; at its end it asks to sign in', async () => {
    const tab = await at.browser.open('/certificates')
    const { page } = tab
    await signInOn(page, 'ada', password())
    await page.getByRole('heading', { name: 'Certificates', level: 1 }).waitFor()
    await reloadedAt(tab, 115_000, page.getByText(/Your session ends in \d:\d\d\./))
    await assertAccessible(page, 'the warning')
    await reloadedAt(tab, 3_000, page.getByRole('dialog', { name: 'Sign in again' }))
    await press(page, 'Leave this page')
    await page.getByRole('heading', { name: 'Chancery', level: 1 }).waitFor()
  })

  test('half an hour without a sign of the user ends the session, also at the service; what was typed stays', async () => {
    const { page } = await at.browser.as('admin', { place: '/bulk-revocations/new', hasClock: true })
    const token = await page.evaluate(`JSON.parse(sessionStorage.getItem('chancery.session')).token`)
    await page.getByLabel('Exact name').fill('typed.example.test')
    await page.clock.fastForward('28:05')
    const warning = page.getByText(/You are inactive and will be signed out in 1:\d\d\./)
    await warning.waitFor()
    await assertAccessible(page, 'the warning before idleness ends the session')
    await press(page, 'Stay signed in')
    await warning.waitFor({ state: 'detached' })
    await page.clock.fastForward('30:01')
    const dialog = page.getByRole('dialog', { name: 'Sign in again' })
    await dialog.getByText('signed out after 30 minutes of inactivity', { exact: false }).waitFor()
    await until('the service refuses the token', async () => {
      const { status } = await adminRequest(at.service.baseUrl, 'GET', '/me', { token: String(token) })
      return status === 401
    })
    await dialog.getByLabel('Password').fill(password())
    await press(dialog, 'Sign in')
    await dialog.waitFor({ state: 'detached' })
    await becomes(() => page.getByLabel('Exact name').inputValue(), 'typed.example.test')
    await press(page, 'Preview')
    await page.getByText('No matches that are neither', { exact: false }).waitFor()
  })

  describe('a secret that is shown once', () => {
    const copied = ({ page }: ConsoleTab) => page.getByRole('button', { name: 'I have copied it' })
    const stored = ({ page }: ConsoleTab) => page.evaluate(`sessionStorage.getItem('chancery.once-shown')`)

    async function withToken(hasClock = false): Promise<ConsoleTab> {
      const tab = await at.browser.as('admin', { place: '/tokens', hasClock })
      await carryOut(tab.page, 'Create a token', 'Create a token', { Name: 'soon gone' })
      await copied(tab).waitFor()
      assert.notEqual(await stored(tab), null)
      return tab
    }

    test('leaves the tab when half an hour of inactivity ends the session', async () => {
      const tab = await withToken(true)
      await tab.page.clock.fastForward('30:01')
      await tab.page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
      await copied(tab).waitFor({ state: 'detached' })
      assert.equal(await stored(tab), null)
    })

    test('leaves the tab when the session was ended elsewhere, and does not come back with the next one', async () => {
      const tab = await withToken()
      await endSessions()
      await tab.page.getByRole('link', { name: 'Orders', exact: true }).dispatchEvent('click')
      const dialog = tab.page.getByRole('dialog', { name: 'Sign in again' })
      await dialog.getByLabel('Password').fill(password())
      assert.equal(await stored(tab), null)
      await press(dialog, 'Sign in')
      await dialog.waitFor({ state: 'detached' })
      assert.equal(await tab.page.getByText('soon gone: shown once', { exact: false }).count(), 0)
    })

    test('leaves the tab when the page is loaded after the end of the session', async () => {
      const tab = await withToken()
      tab.page.on('dialog', (dialog) => void dialog.accept())
      await endIn(tab, -1_000)
      await tab.page.reload()
      await tab.page.getByLabel('Username').waitFor()
      assert.equal(await stored(tab), null)
    })

    test('stays when it is the password for the next sign-in, until the user has gone', async () => {
      const tab = await at.browser.as('auditor', { place: '/profile', hasClock: true })
      await press(tab.page, 'Generate a new password')
      const asking = tab.page.getByRole('dialog', { name: 'Generate a new password' })
      await asking.getByLabel('Current password').fill(at.browser.passwords.get('auditor') as string)
      await press(asking, 'Generate a new password')
      await copied(tab).waitFor()
      const secret = await tab.page.getByRole('dialog', { name: 'Your new password' }).locator('pre').textContent()
      at.browser.passwords.set('auditor', secret ?? '')
      await tab.page.getByRole('link', { name: 'Orders', exact: true }).dispatchEvent('click')
      await tab.page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
      assert.notEqual(await stored(tab), null)
      await tab.page.clock.fastForward('30:01')
      await until('the password has left the tab', async () => (await stored(tab)) === null)
    })
  })

  test('tabs of a browser share the session, and a sign-out in one of them ends it in all', async () => {
    const { page } = await at.browser.as('admin')
    const second = await page.context().newPage()
    await second.goto(`${at.browser.url}#/orders`)
    await second.getByRole('heading', { name: 'Orders', level: 1 }).waitFor()
    await press(second, 'Sign out')
    for (const tab of [page, second]) await tab.getByLabel('Username').waitFor()
    const third = await page.context().newPage()
    await third.goto(at.browser.url)
    await third.getByLabel('Username').waitFor()
  })

  test('each browser has a session of its own; signing out everywhere ends all of them', async () => {
    const first = await at.browser.as('admin')
    const second = await at.browser.as('admin', '/bulk-revocations')
    await carryOut(first.page, 'Sign out everywhere')
    await first.page.getByRole('heading', { name: 'Chancery', level: 1 }).waitFor()
    // Its list may be asked for after the end of its session, and then the dialog is open already.
    await second.page.getByRole('link', { name: 'Certificates', exact: true }).dispatchEvent('click')
    await second.page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
  })

  test('a hidden tab asks for nothing; when it is seen again, it asks at once', async () => {
    const { page } = await at.browser.as('admin', { hasClock: true })
    // Every part of the page has asked for the first time: that it does hidden, too.
    await page.getByText(at.service.directoryUrl, { exact: true }).waitFor()
    await page.getByRole('heading', { name: 'Expirations by account' }).waitFor()
    await page.evaluate(`{
      window.asked = 0
      const ask = window.fetch
      window.fetch = (...given) => { window.asked++; return ask(...given) }
    }`)
    const asked = () => page.evaluate('window.asked').then(Number)
    const turn = (state: 'hidden' | 'visible') =>
      page.evaluate(`{
        Object.defineProperty(document, 'hidden', { configurable: true, value: ${state === 'hidden'} })
        Object.defineProperty(document, 'visibilityState', { configurable: true, value: '${state}' })
        document.dispatchEvent(new Event('visibilitychange'))
      }`)
    await page.clock.fastForward(5_000)
    await until('it asks again and again', async () => (await asked()) > 0)
    await turn('hidden')
    const before = await asked()
    // Some timers begin only with the answers that are on their way now.
    for (let minute = 0; minute < 20; minute++) await page.clock.fastForward('01:00')
    assert.equal(await asked(), before)
    await turn('visible')
    await until('it asks at once', async () => (await asked()) > before)
  })

  test('a service that fails or does not answer is said, with the time of the last answer', async () => {
    const { page } = await at.browser.as('admin')
    await page.getByText('Live, every 5 s').waitFor()
    await page.route('**/api/overview', (route) => route.abort())
    await page.getByText('Stale: the last answer is from', { exact: false }).waitFor()
    await page.getByRole('alert').getByText('The service does not answer', { exact: false }).waitFor()
    await assertAccessible(page, 'a service that does not answer')
    const body = { error: 'internal', message: 'the server failed', status: 500, request_id: 'ticket-4711' }
    await page.unroute('**/api/overview')
    await page.route('**/api/overview', (route) => route.fulfill({ status: 500, json: body }))
    await page.getByText('Request ticket-4711').waitFor()
    await page.unroute('**/api/overview')
    await page.getByText('Live, every 5 s').waitFor()
    // No answer at all: the request hangs, and has no error yet.
    await page.route('**/api/overview', () => undefined)
    await page.getByText('Stale: the last answer is from', { exact: false }).waitFor()
    assert.equal(await page.getByRole('alert').count(), 0)
  })
})
