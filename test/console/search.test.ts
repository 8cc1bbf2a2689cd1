/** The search field by keyboard alone, from a key to the time line of a name. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Issuing, startIssuing } from '../support/issuing.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, hasFocus, NARROW } from './browser.ts'
import { consoleOf } from './suite.ts'

describe('the search field of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let issuing: Issuing
  before(async () => {
    issuing = await startIssuing(at.service)
    await issuing.client.obtain(['www.oven.test'], issuing.responder)
    await issuing.client.obtain(['api.oven.test'], issuing.responder)
    await failToValidate('broken.oven.test')
  })
  after(() => issuing?.end())

  async function failToValidate(name: string): Promise<void> {
    const order = await issuing.client.newOrder([name])
    const { json } = await issuing.client.post(order.json.authorizations[0])
    const challenge = json.challenges.find(({ type }: { type: string }) => type === 'http-01')
    issuing.responder.answer(challenge.token, 'another server')
    await issuing.client.post(challenge.url, {})
    await until('the failure is kept', async () => (await issuing.admin.get('/failures')).json.length > 0)
  }

  test('Ctrl-K opens it from everywhere, arrows choose, and Enter opens the time line', async () => {
    const { page } = await at.browser.as('admin', '/settings')
    await page.keyboard.press('Control+k')
    const field = page.getByRole('combobox', { name: 'Search everything' })
    await becomes(() => hasFocus(field), true)
    await assertAccessible(page, 'an empty search')
    await page.keyboard.type('oven.test')
    const hits = page.getByRole('listbox', { name: 'Hits' }).getByRole('option')
    const slow = page.getByText('did not answer in time', { exact: false })
    await until('hits', async () => {
      await hits.nth(1).or(slow).first().waitFor()
      if ((await slow.count()) === 0) return true
      // On a machine that is busy; a person would type on, too.
      await field.fill('')
      await field.fill('oven.test')
      return false
    })
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
    await page.getByRole('option', { name: /^broken\.oven\.test/ }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'broken.oven.test', level: 1 }).waitFor()
    await page.getByText('curl -v http://broken.oven.test', { exact: false }).first().waitFor()
    await page.getByText('Order: invalid').waitFor()
    await page.getByText('None is valid').waitFor()
    await assertAccessible(page, 'a time line')
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
    await page.getByText('No part of a name was looked for', { exact: false }).waitFor()
    assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0)
    assert.equal(await page.evaluate('window.hacked'), undefined)
    await page.route('**/search?*', (route) => route.abort())
    await field.fill('oven')
    await page.getByText('The search has failed.').waitFor()
  })
})
