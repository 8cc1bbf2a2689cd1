/** Every page of the console by every role, in light and dark, wide and narrow; and every button that an auditor has. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { Role } from '../../src/domain/administrator.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, NARROW, type Rules, visit, WIDE } from './browser.ts'
import { type Populated, populate } from './populated.ts'
import { consoleOf } from './suite.ts'

/** Beginnings of the names of buttons that an auditor must not be offered. */
const CHANGES =
  /^(?:Create\b|Delete|Revoke|Deactivate|Allow|Remove|Add|Save$|Retry|Purge|Redeliver|Start|Stop|End|Resume|Rebuild|Block|Unblock|Unlock|Enable|Disable|Change|New|Ask)/

interface Look {
  viewport: typeof WIDE
  colorScheme: 'light' | 'dark'
  rules: Rules
}
/**
 * No rule of the style sheets gives a colour of its own to one width, so a scheme is seen in one width.
 * An administrator's page has all that another role's page has, so colours and boxes are looked at there.
 */
const LOOKS: Readonly<Record<Role, readonly Look[]>> = {
  admin: [
    { viewport: WIDE, colorScheme: 'light', rules: 'all' },
    { viewport: NARROW, colorScheme: 'dark', rules: 'looks' },
  ],
  operator: [{ viewport: WIDE, colorScheme: 'light', rules: 'structure' }],
  registrar: [{ viewport: WIDE, colorScheme: 'light', rules: 'structure' }],
  auditor: [{ viewport: WIDE, colorScheme: 'light', rules: 'structure' }],
}
const PAGES_OF_A_REGISTRAR =
  'Overview, Certificates, At risk, Failures, Orders, Accounts, EAB credentials, Onboarding, Approvals, Your profile'
const CLOSED = 'Your role does not allow this.'
const OFFERED = 'main a.button, main button:not([disabled])'
const PRESSED = 'main button:not([disabled])'

describe('a tour of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let data: Populated
  before(async () => {
    data = await populate(at.service)
  })

  const places = () => [
    '/',
    '/certificates',
    '/at-risk',
    `/certificates/${data.serial}`,
    '/bulk-revocations',
    `/bulk-revocations/${data.jobId}`,
    '/accounts',
    `/accounts/${data.accountId}`,
    '/failures',
    '/failures?by=cause',
    '/names/www.shop.test',
    '/names/fails.shop.test',
    '/orders',
    `/orders/${data.orderId}`,
    `/authorizations/${data.authorizationId}`,
    '/identifiers',
    '/eab',
    `/eab/${data.credentialId}`,
    '/onboarding',
    `/onboarding/${data.credentialId}`,
    '/csr-profiles',
    `/csr-profiles/${data.profileId}`,
    '/blocked-keys',
    '/incident',
    `/incident/${data.incidentId}`,
    '/audit-log',
    '/notifications',
    '/events',
    '/operation',
    '/issuers',
    '/crl',
    '/settings?part=server',
    '/users',
    '/approvals',
    '/tokens',
    '/profile',
    '/nothing',
    '/bulk-revocations/new',
    '/csr-profiles/new',
  ]

  for (const role of Object.keys(LOOKS) as Role[])
    test(`as ${role} each page passes axe, fits, shows no problem and is refused nothing; no link leads to a closed one`, async () => {
      const { page } = await at.browser.as(role)
      const refused = refusalsOf(page)
      const linked = new Set<string>()
      const closed = new Set<string>()
      for (const place of places()) {
        await visit(page, place)
        if ((await page.getByText(CLOSED).count()) > 0) closed.add(kindOf(place))
        for (const link of await linksOf(page)) linked.add(kindOf(link))
        for (const look of LOOKS[role]) await requireInOrder(page, `${place} as ${role}`, look)
      }
      assert.deepEqual(refused, [])
      assert.deepEqual(
        [...linked].filter((kind) => closed.has(kind)),
        [],
      )
      const toured = new Set(places().map(kindOf))
      assert.deepEqual([...linked].filter((kind) => !toured.has(kind)).sort(), [])
    })

  async function requireInOrder(page: Page, where: string, { viewport, colorScheme, rules }: Look): Promise<void> {
    const what = `${where}, ${colorScheme}, ${viewport.width} pixels wide`
    await page.setViewportSize(viewport)
    await page.emulateMedia({ colorScheme })
    // A chart is drawn anew for the width.
    await until(`${what} fits`, async () => {
      return Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth')) <= 0
    })
    await assertAccessible(page, what, rules)
    assert.equal(await page.getByRole('alert').count(), 0, `${what} shows a problem`)
    assert.equal(await page.evaluate('window.hacked'), undefined, what)
  }

  test('a registrar begins at an overview of its own, and sees its tags and no page about the service', async () => {
    const { page } = await at.browser.as('registrar')
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    await page.getByText('Registrar of team').waitFor()
    const names = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts()
    assert.equal(names.join(', '), PAGES_OF_A_REGISTRAR)
  })

  test('on a phone the menu opens over the page, and passes axe', async () => {
    const { page } = await at.browser.as('admin', { viewport: NARROW })
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('link', { name: 'Audit log' }).waitFor()
    await assertAccessible(page, 'the menu')
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
    await becomes(() => page.getByRole('button', { name: 'Menu' }).getAttribute('aria-expanded'), 'false')
  })

  test('an auditor who presses every button is refused nothing, and changes nothing', async () => {
    const { page } = await at.browser.as('auditor')
    const refused = refusalsOf(page)
    const changes = changesOf(page)
    for (const place of places()) {
      await visit(page, place)
      const forbidden = (await page.locator(OFFERED).allInnerTexts()).filter((text) => CHANGES.test(text))
      // Everybody changes what is its own: mail address and sessions.
      if (place !== '/profile') assert.deepEqual(forbidden, [], place)
      const pressed = new Set<string>()
      for (let index = 0; ; index++) {
        const names = await page.locator(PRESSED).allTextContents()
        const name = names[index]
        if (name === undefined) break
        // Copying needs the permission of a person and asks the service for nothing. A row's button does what another row's does.
        if (name === 'Copy' || pressed.has(name)) continue
        pressed.add(name)
        await page.locator(PRESSED).nth(index).click()
        // It opens a dialog over the page, or another place.
        await visit(page, '/nothing')
        await visit(page, place)
      }
    }
    assert.deepEqual([refused, changes], [[], []])
  })
})

/** Of a page: ids and filters change nothing of the right to see it. */
const kindOf = (place: string): string => place.replace(/\?.*$/, '').replace(/[0-9a-f-]{16,}|(?<=names\/).*/g, ':id')

const linksOf = (page: Page): Promise<string[]> =>
  page
    .locator('a[href^="#/"]')
    .evaluateAll((all) => all.map((link) => (link as unknown as { hash: string }).hash.slice(1)))

/** Requests that the role was refused, as they come. */
function refusalsOf(page: Page): string[] {
  const refused: string[] = []
  page.on('response', (response) => {
    if (response.status() === 403) refused.push(response.url())
  })
  return refused
}

/** Requests that ask and change nothing. */
const QUESTIONS = /\/(?:validate|check|export|verifications)$/

function changesOf(page: Page): string[] {
  const changes: string[] = []
  page.on('request', (request) => {
    if (request.method() !== 'GET' && !QUESTIONS.test(request.url()))
      changes.push(`${request.method()} ${request.url()}`)
  })
  return changes
}
