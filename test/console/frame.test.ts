/** What frames every page: the environment, the zone of times, keys, and the tools of lists. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type AdminClient, administrator } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { assertAccessible, becomes, carryOut, hasFocus, press, saved, visit } from './browser.ts'
import { consoleOf } from './suite.ts'

describe('the frame of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let admin: AdminClient
  before(async () => {
    admin = await administrator(at.service, 'carol')
    for (const kid of ['zeta', 'alpha', 'mid']) await admin.send('POST', '/eab', { kid })
  })

  test('the environment is in the header, the title and the icon, also before anybody has signed in', async () => {
    const { page } = await at.browser.as('admin')
    await page.locator('header').getByText('Test & Lab').waitFor()
    await becomes(() => page.title(), 'Overview · Test & Lab · Chancery')
    await press(page, 'Sign out')
    await page.locator('main').getByText('Test & Lab').waitFor()
    const icon = await page.locator('link[rel=icon]').getAttribute('href')
    assert.match(icon ?? '', /^icon-red\./)
    assert.equal((await page.request.get(`${at.browser.url}${icon}`)).status(), 200)
    await assertAccessible(page, 'sign-in with an environment')
  })

  test('no page with filters scrolls sideways at 320 pixels', async () => {
    const { page } = await at.browser.as('admin', { place: '/nothing', viewport: { width: 320, height: 640 } })
    for (const place of ['/certificates', '/bulk-revocations/new', '/orders', '/accounts', '/audit-log']) {
      await visit(page, place)
      await page.locator('.filters').first().waitFor()
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 320, place)
    }
  })

  test('in forced colours the current page alone is marked, and on paper neither buttons nor the side bar are', async () => {
    const { page } = await at.browser.as('admin', { place: '/eab', forcedColors: 'active' })
    const edges = () =>
      page.evaluate(`[...new Set([...document.querySelectorAll('nav a:not([aria-current])')]
        .map((link) => getComputedStyle(link).borderLeftColor))]`)
    const of = (selector: string) =>
      page.evaluate(`getComputedStyle(document.querySelector(${JSON.stringify(selector)})).borderLeftColor`)
    const [edge] = (await edges()) as string[]
    assert.notEqual(edge, await of('nav a[aria-current]'))
    await page.emulateMedia({ media: 'print', forcedColors: 'none' })
    assert.ok(((await page.locator('main').boundingBox())?.x ?? 999) < 40)
    for (const button of await page.getByRole('button').all()) assert.equal(await button.isVisible(), false)
  })

  test('Back brings the keyboard to the link that one has left by', async () => {
    const { page } = await at.browser.as('admin', '/eab')
    const link = page.getByRole('link', { name: 'alpha', exact: true })
    await link.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'alpha', level: 1 }).waitFor()
    await page.goBack()
    await becomes(() => hasFocus(link), true)
  })

  test('times are in UTC until the user takes those of the browser, and each page says which', async () => {
    const { page } = await at.browser.as('admin', { place: '/eab', timezoneId: 'Asia/Tokyo' })
    const created = page.locator('tbody time').last()
    const utc = await created.textContent()
    await press(page, 'Times: UTC')
    await page.getByRole('button', { name: 'Times: Asia/Tokyo' }).waitFor()
    const shown = (await created.textContent()) ?? ''
    const minutes = (Date.parse(`${shown.slice(0, 16)}Z`) - Date.parse(`${utc?.slice(0, 16)}Z`)) / 60_000
    assert.equal(minutes, 540)
    await visit(page, '/audit-log')
    await page.getByLabel('Since (Asia/Tokyo)').waitFor()
  })

  test('keys open pages, walk along rows and list themselves; they can be turned off', async () => {
    const { page } = await at.browser.as('admin', '/eab')
    await page.locator('tbody tr').nth(2).waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    const focused = () => page.evaluate(`document.activeElement.closest('tr')?.rowIndex`)
    await becomes(focused, 2)
    await page.keyboard.press('k')
    await becomes(focused, 1)
    await page.keyboard.type('gc')
    await page.getByRole('heading', { name: 'Certificates', level: 1 }).waitFor()
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await assertAccessible(page, 'the list of keys')
    await help.getByLabel('Use these shortcuts').uncheck()
    await press(help, 'Close')
    await page.locator('main h1').focus()
    await page.keyboard.type('ge')
    await page.getByRole('heading', { name: 'Certificates', level: 1 }).waitFor()
  })

  test('a list that is whole is sorted by its heads, leaves columns out, and keeps views', async () => {
    const { page } = await at.browser.as('admin', '/eab')
    const kids = async () => (await page.locator('tbody th').allTextContents()).join(' ')
    await becomes(() => page.locator('tbody th').count(), 3)
    await page.getByRole('button', { name: 'Key identifier' }).click()
    await becomes(kids, 'alpha mid zeta')
    await page.getByRole('button', { name: 'Key identifier' }).click()
    await becomes(kids, 'zeta mid alpha')
    await page.getByText('Columns', { exact: true }).click()
    await page.getByLabel('Uses').uncheck()
    await becomes(() => page.getByRole('columnheader', { name: 'Uses' }).count(), 0)
    await page.locator('form').getByLabel('Status').selectOption({ index: 1 })
    await carryOut(page, 'Save this view', 'Save this view', { Name: 'Open ones' })
    await visit(page, '/eab')
    await page.reload()
    await page.getByRole('link', { name: 'Open ones' }).click()
    await page.waitForURL(/\?/)
    await becomes(() => page.getByRole('columnheader', { name: 'Uses' }).count(), 0)
  })

  test('the number and the file of a list are of all its rows, not of those that are shown', async () => {
    for (let index = 0; index < 110; index++)
      await admin.send('POST', '/allowed-identifiers', { type: 'dns', value: `h${index}.test` })
    const { page } = await at.browser.as('admin', '/identifiers')
    await page.getByText('shown, there are more').waitFor()
    await press(page, 'Count')
    await page.getByText('110 rows').waitFor()
    const credentials = await at.browser.as('admin', '/eab')
    assert.equal((await saved(credentials.page, 'Save as CSV')).trim().split('\r\n').length, 4)
  })
})
