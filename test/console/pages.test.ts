/** Pages of accounts, credentials, policy and service: what they show and do, and hostile content. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { csrFor } from '../support/acme-client.ts'
import { made } from '../support/bound.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, confirm, press, saved, visit } from './browser.ts'
import {
  HOSTILE,
  HOSTILE_LINK,
  HOSTILE_SERIAL,
  HOSTILE_TAG,
  hostileCsr,
  type Populated,
  populate,
} from './populated.ts'
import { consoleOf } from './suite.ts'

describe('pages of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let data: Populated
  before(async () => {
    data = await populate(at.service)
  })

  test('hostile content is shown as the text that it is, wherever a client has left it', async () => {
    const { page } = await at.browser.as('admin', `/accounts/${data.accountId}`)
    const shows = async (place: string, ...texts: string[]) => {
      await visit(page, place)
      for (const text of texts) await page.locator('main').getByText(text).first().waitFor()
      assert.equal(await page.evaluate('window.hacked'), undefined, place)
    }
    // Contacts, a refused name, the subject of a certification request, the answer to a challenge.
    await shows(`/accounts/${data.accountId}`, `mailto:${HOSTILE}`, HOSTILE_LINK)
    await page.locator('.failure', { hasText: 'An order was refused' }).getByText(HOSTILE).first().waitFor()
    const refused = page.locator('.failure', { hasText: 'A certification request was refused' })
    await refused.getByText(HOSTILE_TAG).first().waitFor()
    await shows(`/orders/${data.orderId}`, HOSTILE)
    await shows(`/authorizations/${data.authorizationId}`, HOSTILE)
    await becomes(() => page.locator('td, dd, strong').getByText(HOSTILE, { exact: true }).count(), 5)
    await shows('/certificates', HOSTILE)
    await shows(`/certificates?domain=${encodeURIComponent(HOSTILE)}`, HOSTILE)
    await shows(`/certificates/${HOSTILE_SERIAL}`, HOSTILE_TAG)
    await shows(`/eab/${data.credentialId}`, HOSTILE)
    await shows('/', HOSTILE)
    await visit(page, '/notifications')
    await page.getByRole('button', { name: HOSTILE, exact: true }).click()
    await page.locator('dialog pre').getByText(HOSTILE).waitFor()
    await visit(page, '/events')
    await press(page, 'View')
    await page.locator('dialog pre').getByText(JSON.stringify(HOSTILE)).waitFor()
    assert.equal(await page.evaluate('window.hacked'), undefined)
  })

  test('a hostile subject of a dropped request is text, too', async () => {
    const { page } = await at.browser.as('auditor', `/csr-profiles/${data.profileId}`)
    const csr = JSON.stringify(await hostileCsr('www.shop.test'))
    await page.getByText('Paste PEM or base64', { exact: false }).waitFor()
    const dropped = await page.evaluateHandle(`{
      const dropped = new DataTransfer()
      dropped.items.add(new File([${csr}], 'x.csr'))
      dropped
    }`)
    await page.dispatchEvent('form.drop', 'drop', { dataTransfer: dropped })
    await page.getByText(HOSTILE_TAG).first().waitFor()
    assert.equal(await page.evaluate('window.hacked'), undefined)
  })

  test('a profile is made in the form or as JSON, tried on a request and on certificates, and saved', async () => {
    const { page } = await at.browser.as('admin', '/csr-profiles/new')
    await page.getByLabel('Name', { exact: true }).fill('web servers')
    await page.getByLabel('Alternative names, at most').fill('1')
    await until('the JSON follows', async () => /"san_maximum": 1/.test(await page.getByLabel('JSON').inputValue()))
    await page.getByLabel('JSON').fill('{ "san_maximum": 1, "wildcard_in_san": false }')
    const wildcard = page.getByLabel('Wildcard in an alternative name')
    await until('the form follows', async () => (await wildcard.inputValue()) === 'false')
    await press(page, 'Check')
    // Two names each: the certificate of a client, and one whose common name is none of its SANs.
    await page.getByText(/^2 of \d certificates would be refused/).waitFor()
    const csr = Buffer.from(await csrFor(['a.shop.test', 'b.shop.test']), 'base64url')
    await page.locator('input[type=file]').setInputFiles({ name: 'x.der', mimeType: 'application/pkcs10', buffer: csr })
    await page.getByText('The request would be refused.').waitFor()
    await page.getByText('2 subject alternative names; the maximum is 1').last().waitFor()
    await assertAccessible(page, 'a profile that was tried')
    await press(page, 'Save')
    await page.getByRole('heading', { name: 'web servers', level: 1 }).waitFor()
  })

  test('a refused form keeps what was typed and says what is wrong beside the field', async () => {
    const { page } = await at.browser.as('admin', '/csr-profiles/new')
    await page.getByLabel('Name', { exact: true }).fill('broken')
    await page.getByLabel('Every alternative name matches').fill('(')
    await press(page, 'Save')
    await page.locator('.field .error').first().waitFor()
    await becomes(() => page.getByLabel('Every alternative name matches').inputValue(), '(')
    await becomes(() => page.getByLabel('Every alternative name matches').getAttribute('aria-invalid'), 'true')
  })

  test('an identifier is allowed to an account by its name alone', async () => {
    const { page } = await at.browser.as('admin', `/accounts/${data.accountId}`)
    await made(data.admin, '/allowed-identifiers', { type: 'dns', value: 'xn--bcher-kva.test' })
    const known = new Set((await data.admin.get('/allowed-identifiers')).json.map(({ id }: { id: string }) => id))
    // In the list already, in the same or in another spelling; the last one is new.
    for (const [typed, value] of [
      ['*.shop.test', '*.shop.test'],
      [' *.Shop.Test. ', '*.shop.test'],
      ['Bücher.test', 'xn--bcher-kva.test'],
      ['10.1.0.0/16', '10.1.0.0/16'],
    ] as const) {
      await page.getByLabel('Name, address or network').fill(typed)
      await press(page, 'Allow')
      await page.getByText(`${value} is allowed.`).waitFor()
      await press(page, `Remove ${value}`)
      await page.getByRole('dialog').getByText('Not enforced', { exact: false }).waitFor()
      await confirm(page, 'Remove')
      await page.getByText(`${value} is removed.`).waitFor()
      await page.getByRole('button', { name: `Remove ${value}` }).waitFor({ state: 'detached' })
    }
    const added = (await data.admin.get('/allowed-identifiers')).json.filter(({ id }: { id: string }) => !known.has(id))
    assert.deepEqual(
      added.map((one: { identifier_value: string }) => one.identifier_value),
      ['10.1.0.0/16'],
    )
    await page.getByLabel('Name, address or network').fill('a..b')
    await press(page, 'Allow')
    await page.locator('.field .error').waitFor()
  })

  test('numbers that were estimated are said to be so', async () => {
    const { page } = await at.browser.as('auditor', '/nothing')
    const day = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)
    const expiring = [1, 7, 14, 30].map((days) => ({ days, certificates: 1000 * days + 234 }))
    const replies = {
      'expiry-histogram?*': { is_estimate: true, buckets: [{ day, group: null, certificates: 12_345 }] },
      'expiring-by-account': {
        is_estimate: true,
        others: expiring,
        accounts: [{ account_id: data.accountId, account_name: 'team', contacts: [], eab_kid: null, expiring }],
      },
    }
    for (const [path, json] of Object.entries(replies))
      await page.route(`**/api/certificates/${path}`, (route) => route.fulfill({ json }))
    await visit(page, '/')
    const shows = (text: string) => page.locator('main').getByText(text, { exact: false }).first().waitFor()
    await shows(`Within 60 days, about 12,000 unrevoked certificates expire, at most about 12,000 on a day (${day}).`)
    await shows('Within 30 days, about 60,000 unrevoked certificates expire; most of them, about 30,000, of team.')
    await shows('about 1,200')
    await shows('There are many: the numbers are estimated')
  })

  test('the chain of the audit log is checked, and filters are in the address', async () => {
    const { page } = await at.browser.as('auditor', '/audit-log')
    await press(page, 'Check the chain')
    await page.getByText('intact', { exact: true }).waitFor()
    await page.getByLabel('Action').selectOption({ label: 'EAB credential: create' })
    await page.waitForURL(/action=eab\.create/)
    await page.locator('td', { hasText: 'EAB credential: create' }).first().waitFor()
    await becomes(() => page.locator('td', { hasText: 'Sign-in: login' }).count(), 0)
  })

  test('lost decisions are on the overview and on a page with what to do, until an administrator needs nothing more', async () => {
    const lose = (act: string, subject: string, outcome: string) =>
      at.sql(
        `INSERT INTO lost_decisions (id, decided_at, decided_by, act, subject, outcome, details)
         VALUES (gen_random_uuid(), now(), 'alice', $1, $2, $3, $4)`,
        [act, subject, outcome, JSON.stringify({ label: HOSTILE })],
      )
    await lose('user.create', HOSTILE, 'lost')
    await lose('signing.stop', 'signing', 'restored')
    const auditor = await at.browser.as('auditor', '/')
    await auditor.page.getByText('a fail-over has lost 1 act: repeat what you still want').waitFor()
    await auditor.page.locator('main a[href="#/lost-decisions"]').click()
    const lost = auditor.page.locator('tr', { hasText: 'User: create' })
    await lost.getByText('Repeat it, if you still want it.').waitFor()
    await lost.getByText(HOSTILE, { exact: true }).waitFor()
    assert.equal(await auditor.page.evaluate('window.hacked'), undefined)
    await assertAccessible(auditor.page, 'lost decisions')
    await auditor.page.getByLabel('Outcome', { exact: true }).selectOption({ label: 'back' })
    await auditor.page.locator('td', { hasText: 'Signing: stop' }).waitFor()
    await becomes(() => auditor.page.locator('td', { hasText: 'User: create' }).count(), 0)
    assert.equal(await auditor.page.getByRole('button', { name: 'Nothing more to do' }).count(), 0)

    const { page } = await at.browser.as('admin', '/lost-decisions?accepted=false')
    await page.locator('tr', { hasText: 'Signing: stop' }).getByRole('checkbox').check()
    await press(page, 'Nothing more to do about these')
    await confirm(page, 'Nothing more to do about these')
    await page.getByText('1 act is accepted.').waitFor()
    await becomes(() => page.locator('td', { hasText: 'Signing: stop' }).count(), 0)
    await press(page, 'Nothing more to do')
    await confirm(page, 'Nothing more to do')
    await page.getByText('No matches').waitFor()
  })

  test('what the filters of the audit log find is saved as lines of JSON', async () => {
    const { page } = await at.browser.as('admin', '/audit-log?action=eab.create')
    const lines = (await saved(page, 'Save all as NDJSON')).trim().split('\n')
    assert.deepEqual(new Set(lines.map((line) => JSON.parse(line).action)), new Set(['eab.create']))
  })
})
