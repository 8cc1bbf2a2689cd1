/** Pages of policy, service and people when the API is slow or fails, when two tabs are at work, and with the back button. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type AdminClient, administrator } from '../support/admin.ts'
import { made } from '../support/bound.ts'
import { WAIT_MS } from '../support/patience.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, carryOut, press, settled, visit } from './browser.ts'
import { consoleOf } from './suite.ts'

const FAILURE = { error: 'internal', message: 'the server failed', status: 500, request_id: 'ticket-4711' }
/** With what each shows only when its figures are there. */
const PLACES = [
  ['/audit-log', 'role: auditor'],
  ['/lost-decisions', 'No lost decisions'],
  ['/notifications', 'No notifications'],
  ['/events', 'No undelivered events'],
  ['/users', 'ada@example.com'],
  ['/tokens', 'metrics'],
  ['/settings?part=external_url', 'server.external_url'],
  ['/identifiers', '*.shop.test'],
  ['/csr-profiles', 'web servers'],
  ['/blocked-keys', 'No blocked keys'],
  ['/operation', 'Start maintenance'],
  ['/crl', 'Rebuild now'],
  ['/profile', 'ada@example.com'],
  ['/eab', 'No credentials yet'],
  ['/certificates', 'No certificates yet'],
] as const

const PRESS_TRY_AGAIN = `for (const button of document.querySelectorAll('main button'))
  if (button.textContent === 'Try again') button.click()`

describe('faults beneath the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let admin: AdminClient
  before(async () => {
    admin = await administrator(at.service, 'grace')
    await made(admin, '/tokens', { name: 'metrics' })
    await made(admin, '/allowed-identifiers', { type: 'dns', value: '*.shop.test' })
    await made(admin, '/csr-profiles', { name: 'web servers', profile_data: { san_maximum: 3 } })
  })

  const EVERY_REQUEST = /\/api\/(?!console\/)/
  const shows = (page: Page, text: string) => page.locator('main').getByText(text, { exact: false }).first().waitFor()

  test('each page says that the service does not answer, or fails with the number of the request, until it is asked to try again', async () => {
    const { page } = await at.browser.as('admin', '/nothing')
    const tryAgain = (what: string, isDone: () => Promise<boolean>) =>
      until(what, async () => {
        // All at once: a page that looks by itself may be faster.
        await page.evaluate(PRESS_TRY_AGAIN)
        // Another press would ask anew, so an answer is given its time.
        return until('the answer', isDone, WAIT_MS / 10).catch(() => false)
      })
    const areAll = (text: string) => async () => {
      const alerts = await page.getByRole('alert').allTextContents()
      return alerts.length > 0 && alerts.every((alert) => alert.includes(text))
    }
    for (const [place, text] of PLACES) {
      await page.route(EVERY_REQUEST, (route) => route.abort())
      await visit(page, place)
      await until(`${place} without an answer`, areAll('The service does not answer'))
      await page.unroute(EVERY_REQUEST)
      await page.route(EVERY_REQUEST, (route) => route.fulfill({ status: 500, json: FAILURE }))
      await tryAgain(`${place} with a failure`, areAll('Request ticket-4711'))
      await assertAccessible(page, `${place} with a service that fails`, 'structure')
      await page.unroute(EVERY_REQUEST)
      await tryAgain(`${place} without a problem`, async () => (await page.getByRole('alert').count()) === 0)
      await shows(page, text)
      await visit(page, '/nothing')
    }
    await page.route(EVERY_REQUEST, (route) => route.fulfill({ status: 500, json: FAILURE }))
    await visit(page, '/tokens')
    await page.getByText('Request ticket-4711').first().waitFor()
    await assertAccessible(page, 'tokens with a service that fails')
  })

  test('each page says that it is loading, and what comes after it was left disturbs nobody', async () => {
    const { page } = await at.browser.as('admin', '/nothing')
    const held: (() => void)[] = []
    let isSlow = false
    await page.route(EVERY_REQUEST, async (route) => {
      if (isSlow) await new Promise<void>((release) => held.push(release))
      // A page that was left waits for nothing.
      await route.continue().catch(() => undefined)
    })
    for (const [place, text] of PLACES) {
      isSlow = true
      await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
      await page.getByText('Loading …').first().waitFor()
      await page.goBack()
      await page.getByText('Page not found').waitFor()
      isSlow = false
      for (const release of held.splice(0)) release()
      await page.goForward()
      await shows(page, text)
      await settled(page)
      await visit(page, '/nothing')
    }
  })

  test('a change that fails keeps the dialog and what was typed; it goes through when it is tried again', async () => {
    const { page } = await at.browser.as('admin', '/tokens')
    await press(page, 'Create a token')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('backups')
    await page.route(EVERY_REQUEST, (route) => route.fulfill({ status: 500, json: FAILURE }))
    const create = dialog.getByRole('button', { name: 'Create a token' })
    await create.click()
    await dialog.getByText('Request ticket-4711').waitFor()
    await becomes(() => dialog.getByLabel('Name').inputValue(), 'backups')
    await page.unroute(EVERY_REQUEST)
    // Two presses are one token.
    await create.dblclick()
    await page.getByRole('dialog', { name: 'The token backups' }).waitFor()
    await press(page, 'I have copied it')
    const { json } = await admin.get('/tokens')
    assert.equal(json.filter(({ name }: { name: string }) => name === 'backups').length, 1)
    await page.locator('tbody tr', { hasText: 'backups' }).waitFor()
  })

  test('what another tab has changed meanwhile is said, and the page goes on', async () => {
    const doomed = await made(admin, '/csr-profiles', { name: 'doomed', profile_data: {} })
    const [first, second] = [await at.browser.as('admin', '/identifiers'), await at.browser.as('admin', '/identifiers')]
    const remove = async ({ page }: typeof first) => {
      await carryOut(page, 'Delete *.shop.test', 'Delete')
    }
    await second.page.getByRole('button', { name: 'Delete *.shop.test' }).waitFor()
    await remove(first)
    await first.page.getByText('No identifiers yet').waitFor()
    await remove(second)
    await second.page.getByRole('dialog').getByRole('alert').waitFor()
    await press(second.page, 'Cancel')

    for (const { page } of [first, second]) await visit(page, `/csr-profiles/${doomed.id}`)
    await carryOut(first.page, 'Delete', 'Delete', { 'Type doomed to confirm': 'doomed' })
    await first.page.getByRole('heading', { name: 'CSR profiles', level: 1 }).waitFor()
    await second.page.getByLabel('Description').fill('typed meanwhile')
    await press(second.page, 'Save')
    await second.page.getByRole('alert').first().waitFor()
    await becomes(() => second.page.getByLabel('Description').inputValue(), 'typed meanwhile')

    for (const { page } of [first, second]) await visit(page, '/operation')
    await carryOut(first.page, 'Start maintenance')
    // It looks by itself.
    await carryOut(second.page, 'End maintenance')
    await first.page.getByRole('button', { name: 'Start maintenance' }).waitFor()
  })

  test('what is no answer of the service closes no dialog, and a refusal for now says for how long', async () => {
    const { page } = await at.browser.as('admin', '/tokens')
    await press(page, 'Create a token')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('never made')
    const create = dialog.getByRole('button', { name: 'Create a token' })
    const said = (text: string) => dialog.getByRole('alert').getByText(text, { exact: false }).waitFor()
    for (const [answer, text] of [
      [{ status: 200, contentType: 'text/html', body: '<h1>Sign in</h1>' }, 'What answered is not this service'],
      [{ status: 200, body: '' }, 'check before you try again'],
      [{ status: 401, contentType: 'text/html', body: '<h1>Sign in</h1>' }, 'The service answered 401'],
      [
        {
          status: 429,
          headers: { 'retry-after': '30' },
          json: { ...FAILURE, error: 'rate_limited', message: 'too many', status: 429 },
        },
        'Too many. Try again in 30 seconds.',
      ],
    ] as const) {
      await page.route(EVERY_REQUEST, (route) =>
        route.request().method() === 'POST' ? route.fulfill(answer) : route.continue(),
      )
      await create.click()
      await said(text)
      await page.unroute(EVERY_REQUEST)
    }
    await page.route(EVERY_REQUEST, (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
    await create.click()
    await said('It may have done what you asked')
    await page.unroute(EVERY_REQUEST)
    assert.equal(await page.getByRole('dialog', { name: 'Sign in again' }).count(), 0)
  })

  test('the refusal of an act that one has left is told on the next page', async () => {
    const { page } = await at.browser.as('admin', '/users')
    await visit(page, '/tokens')
    await press(page, 'Create a token')
    await page.getByRole('dialog').getByLabel('Name').fill('left behind')
    let release = () => {}
    const isReleased = new Promise<void>((resolve) => {
      release = resolve
    })
    await page.route('**/tokens', async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      await isReleased
      return route.fulfill({
        status: 409,
        json: { ...FAILURE, error: 'conflict', message: 'it is there', status: 409 },
      })
    })
    await page.getByRole('dialog').getByRole('button', { name: 'Create a token' }).click()
    await page.goBack()
    await page.getByRole('heading', { name: 'Users', level: 1 }).waitFor()
    release()
    await page.getByRole('status').getByText('It is there.', { exact: false }).waitFor()
  })

  test('a link with a filter that its page does not know shows the list, and says so', async () => {
    const { page } = await at.browser.as('admin', '/failures?view=cause')
    await page.getByText('does not know the filter view', { exact: false }).waitFor()
    await page.getByText('No failures').or(page.getByText('No matches')).first().waitFor()
    assert.equal(await page.getByRole('alert').count(), 0)
  })

  test('another role is noticed by a refusal: menu and pages follow, and a line says so', async () => {
    const { page } = await at.browser.as('operator', '/operation')
    // The page also asks from time to time; here it learns of it by the refusal.
    const refused = page.waitForResponse((response) => response.status() === 403)
    const answers: Promise<unknown>[] = []
    let isHeld = false
    await page.route(/\/me$/, async (route) => {
      if (isHeld) await refused
      else answers.push(route.request().response())
      await route.continue()
    })
    await page.reload()
    await page.getByRole('button', { name: 'Start maintenance' }).waitFor()
    isHeld = true
    await Promise.all(answers)
    const [{ id } = { id: '' }] = await at.sql<{ id: string }>(
      "UPDATE admin_users SET role = 'auditor' WHERE username = $1 RETURNING id",
      [await page.locator('.user strong').textContent()],
    )
    await carryOut(page, 'Start maintenance', 'Start maintenance', { Reason: 'too late' })
    await page.getByText('Your role has changed: you are Auditor now.').waitFor()
    await becomes(() => page.locator('.user .quiet').first().textContent(), 'Auditor')
    await becomes(() => page.getByRole('button', { name: 'Start maintenance' }).count(), 0)
    await at.sql("UPDATE admin_users SET role = 'operator' WHERE id = $1", [id])
  })

  test('filters are in the address, and back goes through them, page after page', async () => {
    const { page } = await at.browser.as('admin', '/notifications')
    await page.getByLabel('Status').selectOption('failed')
    await page.waitForURL(/status=failed/)
    await visit(page, '/settings?part=crl')
    await becomes(() => page.getByLabel('Search').inputValue(), 'crl')
    await page.getByLabel('Source').selectOption('default')
    await page.waitForURL(/source=default/)
    await visit(page, '/audit-log')
    await page.getByLabel('Action').selectOption('user.create')
    await page.waitForURL(/action=user\.create/)
    const went = async (heading: string, end: RegExp) => {
      await page.goBack()
      await page.waitForURL(end)
      await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
    }
    await went('Audit log', /#\/audit-log$/)
    await becomes(() => page.getByLabel('Action').inputValue(), '')
    await went('Settings', /part=crl&source=default$/)
    await went('Settings', /part=crl$/)
    await becomes(() => page.getByLabel('Source').inputValue(), '')
    await went('Notifications', /status=failed$/)
    await page.getByText('No matches').waitFor()
    await becomes(() => page.getByLabel('Status').inputValue(), 'failed')
    await went('Notifications', /#\/notifications$/)
  })

  test('what was typed is forgotten by two changes of the address that are drawn as one', async () => {
    const { page } = await at.browser.as('admin', '/audit-log')
    const object = page.getByLabel('Object')
    await object.fill('vpn')
    await page.evaluate(`location.hash = '/audit-log?object=x'; location.hash = '/audit-log'`)
    await becomes(() => object.inputValue(), '')
  })
})
