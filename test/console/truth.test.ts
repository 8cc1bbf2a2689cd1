/** Texts of pages that do not know yet, counts of lists, and warnings before something is lost. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { adminConfig } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, carryOut, press, visit } from './browser.ts'
import { type Populated, populate } from './populated.ts'
import { addMany, addRows } from './seed.ts'
import { consoleOf } from './suite.ts'

const NOTHING_ENDS = 'No unrevoked certificate expires within'
/** All at once: each button leaves with its problem. */
const PRESS_TRY_AGAIN = `for (const button of document.querySelectorAll('main button'))
  if (button.textContent === 'Try again') button.click()`
const LISTED = ['Issued certificates', 'Failures', 'Notifications', 'Undelivered events']
  .map((caption) => `section.table[aria-label="${caption}"] tbody tr`)
  .join()
/** Where a number leads, and the number. */
type Counted = [place: string, count: number]
const FAILURE = { error: 'unavailable', message: 'the database is away', status: 503, request_id: 'ticket-4712' }

describe('what the console knows', requireCommand('chromium-headless-shell'), () => {
  // Of its own: the overview has totals of the whole service.
  const at = consoleOf(() =>
    startTestService({ config: { ...adminConfig(), challenges: { http01: { max_retries: 0 } } } }),
  )
  after(() => at.service?.dispose())
  let data: Populated
  before(async () => {
    data = await populate(at.service)
  })

  /** Where the links lead, and the number that each has. */
  const numbersOf = (links: Locator): Promise<Counted[]> =>
    links.evaluateAll((all) =>
      all.map((link): Counted => {
        const { hash, textContent } = link as unknown as { hash: string; textContent: string }
        return [hash.slice(1), Number(/\d+/.exec(textContent)?.[0])]
      }),
    )
  async function areListed(page: Page, numbers: readonly Counted[]): Promise<void> {
    for (const [place, count] of new Map(numbers)) {
      await visit(page, place)
      await becomes(() => page.locator(LISTED).count(), count).catch((error) => assert.fail(`${place}: ${error}`))
    }
  }
  const saysNothingEnds = (page: Page) => page.getByText(NOTHING_ENDS, { exact: false }).count()
  const CHARTS = /\/(?:expiry-histogram|expiring-by-account)/

  test('the overview says that nothing ends only when it knows', async () => {
    const { page } = await at.browser.as('auditor', '/nothing')
    const held: (() => void)[] = []
    await page.route(CHARTS, async (route) => {
      await new Promise<void>((release) => held.push(release))
      await route.fulfill({ status: 503, json: FAILURE })
    })
    await page.evaluate(`location.hash = '/'`)
    await page.getByText('issued to clients in 24 hours').waitFor()
    await until('both charts are asked for', async () => held.length === 2)
    await becomes(() => page.locator('figure.chart').getByText('Loading …').count(), 2)
    assert.equal(await saysNothingEnds(page), 0)
    for (const release of held) release()
    await becomes(() => page.locator('figure.chart').getByText('The database is away', { exact: false }).count(), 2)
    assert.equal(await saysNothingEnds(page), 0)
    await assertAccessible(page, 'an overview without charts')
    await page.unroute(CHARTS)
    for (const answer of [
      ['**/expiry-histogram*', { is_estimate: false, buckets: [] }],
      ['**/expiring-by-account*', { is_estimate: false, accounts: [], others: [{ days: 30, certificates: 0 }] }],
    ] as const)
      await page.route(answer[0], (route) => route.fulfill({ json: answer[1] }))
    await page.evaluate(PRESS_TRY_AGAIN)
    await becomes(() => saysNothingEnds(page), 2)
  })

  test('a list that was cut off says so, and not that there is nothing', async () => {
    const { page } = await at.browser.as('auditor', '/nothing')
    let asked = 0
    await page.route('**/api/certificates?*', async (route) => {
      if (++asked > 1) return
      const next = `<${at.service.baseUrl}/api/certificates?cursor=${uuidv7(0)}>; rel="next"`
      await route.fulfill({ json: [], headers: { Link: next, 'Access-Control-Expose-Headers': 'Link' } })
    })
    await page.evaluate(`location.hash = '/certificates?domain_suffix=x.test'`)
    await until('it looks further', async () => asked > 1)
    assert.equal(await page.getByText('No matches').count(), 0)
  })

  test('a day is whole: since and until today finds what was done today', async () => {
    const today = new Date().toISOString().slice(0, 10)
    const { page } = await at.browser.as('auditor', '/audit-log')
    await page.getByLabel('Since (UTC)').fill(today)
    await page.getByLabel('Until (UTC)').fill(new Date().toISOString().slice(0, 10))
    await page.keyboard.press('Enter')
    await page.waitForURL(/until=/)
    await page.locator('td', { hasText: 'EAB credential: create' }).first().waitFor()
  })

  test('what expires on a day ends with it', async () => {
    const { page } = await at.browser.as('admin', '/tokens')
    await press(page, 'Create a token')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('until tonight')
    const today = new Date().toISOString().slice(0, 10)
    await dialog.getByLabel('Expires (UTC)').fill(today)
    await press(dialog, 'Create a token')
    await press(page, 'I have copied it')
    const tokens: { name: string; expires_at: string }[] = (await data.admin.get('/tokens')).json
    assert.equal(tokens.find(({ name }) => name === 'until tonight')?.expires_at, `${today}T23:59:59.999Z`)
  })

  test('allowed identifiers that are not enforced are said to be so, on pages and in dialogs', async () => {
    const { page } = await at.browser.as('admin', '/identifiers')
    for (const place of ['/identifiers', `/accounts/${data.accountId}`, `/eab/${data.credentialId}`]) {
      await visit(page, place)
      await page.locator('.bar', { hasText: 'Not enforced' }).waitFor()
    }
    await visit(page, '/identifiers')
    await press(page, 'Delete *.shop.test')
    await page.getByRole('dialog').getByText('Not enforced', { exact: false }).waitFor()
    await assertAccessible(page, 'an identifier that is not enforced')
  })

  test('the failures of a day are as many as their figure, each with its reason; an order has its own', async () => {
    const { page } = await at.browser.as('auditor', '/')
    const figure = page.getByRole('link', { name: 'failed in 24 hours' })
    const count = Number((await figure.locator('strong').textContent()) ?? '')
    assert.ok(count >= 3, String(count))
    await figure.click()
    await page.getByRole('heading', { name: 'Failures', level: 1 }).waitFor()
    await becomes(() => page.locator('tbody tr').count(), count)
    for (const title of [
      'An order was refused',
      'A certification request was refused',
      'A name could not be validated',
    ])
      await page.locator('tbody').getByText(title).first().waitFor()
    await assertAccessible(page, 'failures')
    const refused = page.locator('tbody tr', { hasText: 'A certification request was refused' })
    await refused.getByRole('link', { name: 'Order' }).click()
    await becomes(() => page.getByRole('heading', { level: 1 }).textContent(), 'Order')
    await page.getByText('A certification request was refused').waitFor()
  })

  test('each figure of the overview opens a list of as many rows', async () => {
    await addRows(at.service, data, ['soon-1.test', 'soon-2.test', 'soon-3.test', 'soon-4.test', 'soon-5.test'])
    await at.sql(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, message_id)
       VALUES ($1, 'registration_failed', 'stranger@shop.test', 'never sent', '', '', 'failed', 'm2')`,
      [uuidv7(Date.now())],
    )
    const [issued] = await at.sql<{ count: number }>(
      "SELECT count(*)::integer AS count FROM certificates WHERE issued_at > now() - interval '23 hours'",
    )
    await becomes(async () => (await data.admin.get('/overview')).json.issued_of_day, issued?.count)
    // An auditor sees neither mails nor undelivered events.
    for (const [role, links] of [
      ['admin', 10],
      ['auditor', 8],
    ] as const) {
      const { page } = await at.browser.as(role)
      const figures = page.getByRole('navigation', { name: 'Figures' }).getByRole('link')
      await figures.first().waitFor()
      const numbers = await numbersOf(figures)
      assert.equal(numbers.length, links, `${role}: ${numbers}`)
      await areListed(page, numbers)
      const empty = numbers.filter(([, count]) => count === 0)
      assert.ok(empty.length <= 2, `figures without rows show nothing: ${empty}`)
    }
    const operator = await at.browser.as('operator')
    await becomes(() => operator.page.getByRole('navigation', { name: 'Figures' }).getByRole('link').count(), 10)
  })

  test('each number of the expirations, by day and by account, opens a list of as many rows', async () => {
    const { page } = await at.browser.as('auditor')
    const byDay = page.locator('figure', { hasText: 'Expirations by day' })
    await press(byDay, 'Show as table')
    const numbers: Counted[] = []
    for (const name of ['Expirations by day', 'Expirations by account']) {
      const links = page.locator(`section.table[aria-label="${name}"] td a`).filter({ hasText: /^[1-9]\d*$/ })
      await links.first().waitFor()
      numbers.push(...(await numbersOf(links)))
    }
    await areListed(page, numbers)
  })

  test('the figures of issued and revoked certificates lead to those of the day', async () => {
    const { page } = await at.browser.as('auditor')
    await page.getByRole('link', { name: 'revoked in 24 hours' }).click()
    await page.getByRole('link', { name: 'old.shop.test' }).waitFor()
    await page.getByText('Revoked from:', { exact: false }).waitFor()
    await visit(page, '/')
    await page.getByRole('link', { name: 'issued to clients in 24 hours' }).click()
    await page.getByText('Issued from:', { exact: false }).waitFor()
  })

  test('a leaked key is revoked for key compromise unless somebody chooses otherwise', async () => {
    const [row] = await at.sql<{ spki: string }>(
      "SELECT encode(spki_sha256, 'hex') AS spki FROM certificates WHERE serial_number = decode($1, 'hex')",
      [data.serial],
    )
    const { page } = await at.browser.as('admin', `/certificates?spki_sha256=${row?.spki}`)
    await page.getByRole('link', { name: 'Revoke many …' }).click()
    await press(page, 'Preview')
    await becomes(() => page.getByLabel('Reason').inputValue(), '1')
    await page.getByText('Their keys are blocked for good', { exact: false }).waitFor()
    await page.getByLabel('Reason').selectOption('4')
    await page.getByText('Their keys are not blocked', { exact: false }).waitFor()
  })

  test('a bulk revocation that does not get on says why', async () => {
    const job = uuidv7(Date.now())
    await at.sql(
      `INSERT INTO bulk_revocations (id, filter, reason, author, status, total_matched, progressed_at, obstacle)
       VALUES ($1, '{"domain": "x.test"}', 1, '{"username": "ada", "role": "admin"}', 'revoking', 6008,
               now() + interval '1 hour', 'the disk is full')`,
      [job],
    )
    const { page } = await at.browser.as('auditor', `/bulk-revocations/${job}`)
    await page.getByRole('alert').getByText('the disk is full', { exact: false }).waitFor()
    await page.getByText('Listed when the job has finished.').waitFor()
    await assertAccessible(page, 'a bulk revocation that does not get on')
  })

  test('a secret that is shown once survives loading again and Back, until its user closes it', async () => {
    const { page } = await at.browser.as('admin', '/certificates')
    await visit(page, '/tokens')
    await carryOut(page, 'Create a token', 'Create a token', { Name: 'kept' })
    const kept = page.getByRole('button', { name: 'I have copied it' })
    await kept.waitFor()
    const secret = (await page.getByRole('dialog').locator('pre').first().textContent()) ?? ''
    const asked: string[] = []
    page.on('dialog', (dialog) => {
      asked.push(dialog.type())
      void dialog.accept()
    })
    await page.reload()
    assert.deepEqual(asked, ['beforeunload'], 'the browser asks first')
    await page.getByRole('dialog').getByText(secret, { exact: true }).waitFor()
    await page.evaluate('history.back()')
    await page.getByRole('heading', { name: 'Certificates', level: 1 }).waitFor()
    await page.getByText('The token kept: shown once, and not closed yet', { exact: false }).waitFor()
    await assertAccessible(page, 'a secret that is still open')
    await page.getByRole('link', { name: 'View', exact: true }).click()
    await page.getByRole('dialog').getByText(secret, { exact: true }).waitFor()
    await kept.click()
    await kept.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Users', exact: true }).click()
    await page.getByRole('heading', { name: 'Users', level: 1 }).waitFor()
    assert.equal(
      await page.evaluate('JSON.stringify(sessionStorage)').then((all) => String(all).includes(secret)),
      false,
    )
  })

  test('back from a certificate is where the list was left', async () => {
    await addMany(at.service, 80)
    const { page } = await at.browser.as('auditor', '/certificates')
    await until('the list is long', async () => (await page.locator('tbody tr').count()) > 50)
    await page.evaluate('scrollTo(0, 1200)')
    await until('it is scrolled', async () => (await page.evaluate('scrollY')) === 1200)
    await page.evaluate(`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`)
    await page.evaluate(`location.hash = '/certificates/${data.serial}'`)
    await page.getByRole('heading', { level: 1, name: 'www.shop.test' }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'Certificates', exact: true }).waitFor()
    await until('it is where it was', async () => Math.abs(Number(await page.evaluate('scrollY')) - 1200) < 2)
  })
})
