/** The search field by keyboard alone, from a key to the time line of a name. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { failHttp01 } from '../support/clients/failing.ts'
import { type Issuing, startIssuing } from '../support/issuing.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, found, hasFocus, NARROW } from './browser.ts'
import { consoleOf } from './suite.ts'

describe('the search field of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let issuing: Issuing
  before(async () => {
    issuing = await startIssuing(at.service)
    await issuing.client.obtain(['www.oven.test'], issuing.responder)
    await issuing.client.obtain(['api.oven.test'], issuing.responder)
    await failHttp01(issuing.client, issuing.responder, 'broken.oven.test')
    await until('the failure is kept', async () => (await issuing.admin.get('/failures')).json.length > 0)
  })
  after(() => issuing?.end())

  test('Ctrl-K opens it from everywhere, arrows choose, and Enter opens the time line', async () => {
    const { page } = await at.browser.as('admin', '/settings')
    await page.keyboard.press('Control+k')
    const field = page.getByRole('combobox', { name: 'Search everything' })
    await becomes(() => hasFocus(field), true)
    await assertAccessible(page, 'an empty search')
    await page.keyboard.type('oven.test')
    await found(page, 'oven.test')
    await assertAccessible(page, 'a search with hits')
    const chosen = () => page.locator('[role=option][aria-selected=true]').textContent()
    const first = await chosen()
    await page.keyboard.press('ArrowDown')
    await until('the next is chosen', async () => (await chosen()) !== first)
    await page.keyboard.press('ArrowUp')
    await becomes(chosen, first)
    const active = await field.getAttribute('aria-activedescendant')
    assert.equal(await page.locator('[role=option][aria-selected=true]').getAttribute('id'), active)
    await field.fill('broken.oven.test')
    await until('it is chosen', async () => (await chosen().catch(() => ''))?.startsWith('broken'))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'broken.oven.test', level: 1 }).waitFor()
    await page.getByText('curl -v http://broken.oven.test', { exact: false }).first().waitFor()
    await page.getByText('Order: invalid').waitFor()
    await page.getByText('None is valid').waitFor()
    await assertAccessible(page, 'a time line')
  })

  test('Enter that comes before the hits opens the first of them', async () => {
    const { page } = await at.browser.as('admin', '/settings')
    await page.keyboard.press('Control+k')
    await becomes(() => hasFocus(page.getByRole('combobox', { name: 'Search everything' })), true)
    await page.keyboard.type('broken.oven.test')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'broken.oven.test', level: 1 }).waitFor()
  })

  test('a slash opens it outside of fields, Escape closes it, and the focus is where it was', async () => {
    const { page } = await at.browser.as('auditor', '/certificates')
    const filter = page.locator('main').getByLabel('Search')
    await filter.fill('a/b')
    assert.equal(await filter.inputValue(), 'a/b')
    assert.equal(await page.getByRole('dialog').count(), 0)
    const button = page.getByRole('button', { name: /^Search/ }).first()
    await button.focus()
    await page.keyboard.press('/')
    await page.getByRole('combobox', { name: 'Search everything' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await becomes(() => hasFocus(button), true)
  })

  test('it says that nothing was found, what it did not search, and an error where there is one', async () => {
    const { page } = await at.browser.as('admin', { viewport: NARROW })
    await page
      .getByRole('button', { name: /^Search/ })
      .first()
      .click()
    const field = page.getByRole('combobox', { name: 'Search everything' })
    await field.fill('"><img src=x onerror=window.hacked=1>')
    await page.getByText('No matches', { exact: true }).waitFor()
    await page.getByText('another part of a name in the newest', { exact: false }).waitFor()
    assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0)
    assert.equal(await page.evaluate('window.hacked'), undefined)
    await page.route('**/search?*', (route) => route.abort())
    await field.fill('oven')
    await page.getByText('The search has failed.').waitFor()
  })
})
