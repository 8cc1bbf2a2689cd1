/** Every page of the console by every role, in light and dark, wide and narrow; and every button that an auditor has. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { closeConnections } from '../support/acme-client.ts'
import { adminConfig } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, ConsoleBrowser, NARROW, visit, WIDE } from './browser.ts'
import { type Populated, populate } from './populated.ts'

/** Beginnings of the names of buttons that an auditor must not be offered. */
const CHANGES =
  /^(?:Create\b|Delete|Revoke|Deactivate|Allow|Remove|Add|Save$|Retry|Purge|Redeliver|Start|Stop|End|Resume|Rebuild|Block|Unblock|Unlock|Enable|Disable|Change|New|Ask)/
const LOOKS = [
  { viewport: WIDE, colorScheme: 'light', rules: 'all' },
  { viewport: WIDE, colorScheme: 'dark', rules: 'colours' },
  { viewport: NARROW, colorScheme: 'dark', rules: 'all' },
  { viewport: NARROW, colorScheme: 'light', rules: 'colours' },
] as const
const CLOSED = 'Your role does not allow this.'
/** It needs the permission of a person, and asks the service for nothing. */
const COPY = 'Copy'

describe('a tour of the console', requireCommand('chromium-headless-shell'), () => {
  let service: TestService
  let browser: ConsoleBrowser
  let data: Populated
  before(async () => {
    service = await startTestService({
      config: { ...adminConfig(), crl: { enabled: true }, challenges: { http01: { max_retries: 0 } } },
    })
    data = await populate(service)
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    await browser?.close()
    closeConnections()
    await service?.dispose()
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

  for (const role of ['admin', 'auditor'] as const)
    test(`as ${role} each page passes axe, fits and shows no problem, in every look`, async () => {
      const { page, complaints, close } = await browser.as(role)
      const refused = refusalsOf(page)
      for (const place of places()) {
        await visit(page, place)
        for (const look of LOOKS) await requireInOrder(page, `${place} as ${role}`, look)
      }
      assert.deepEqual([complaints, refused], [[], []])
      await close()
    })

  for (const role of ['operator', 'registrar'] as const)
    test(`as ${role} each page passes axe and is refused nothing, and no link of the navigation is closed`, async () => {
      const { page, complaints, close } = await browser.as(role)
      const refused = refusalsOf(page)
      await visit(page, '/nothing')
      const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link')
      const hrefs = await links.evaluateAll((all) => all.map((one) => one.getAttribute('href')?.slice(1) ?? ''))
      for (const place of hrefs) {
        await visit(page, place)
        assert.equal(await page.getByText(CLOSED).count(), 0, place)
      }
      for (const place of places()) {
        await visit(page, place)
        await requireInOrder(page, `${place} as ${role}`, LOOKS[0])
      }
      assert.deepEqual([complaints, refused], [[], []])
      await close()
    })

  test('a registrar begins at an overview of its own, and sees its tags and no page about the service', async () => {
    const { page, close } = await browser.as('registrar')
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    await page.getByText('Registrar of team').waitFor()
    const names = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts()
    assert.deepEqual(names, [
      'Overview',
      'Certificates',
      'At risk',
      'Failures',
      'Orders',
      'Accounts',
      'EAB credentials',
      'Onboarding',
      'Approvals',
      'Your profile',
    ])
    for (const place of [`/accounts/${data.accountId}`, `/eab/${data.credentialId}`, `/certificates/${data.serial}`]) {
      await visit(page, place)
      assert.equal(await page.getByRole('alert').count(), 0, place)
    }
    await close()
  })

  type Look = (typeof LOOKS)[number]
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

  test('on a phone the menu opens over the page, and passes axe', async () => {
    const { page, close } = await browser.as('admin', { viewport: NARROW })
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('link', { name: 'Audit log' }).waitFor()
    await assertAccessible(page, 'the menu')
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
    await becomes(() => page.getByRole('button', { name: 'Menu' }).getAttribute('aria-expanded'), 'false')
    await close()
  })

  test('an auditor who presses every button is refused nothing, and changes nothing', async () => {
    const { page, complaints, close } = await browser.as('auditor')
    const refused = refusalsOf(page)
    const changes = changesOf(page)
    for (const place of places()) {
      await visit(page, place)
      const offered = await page.locator('main a.button, main button:not([disabled])').allInnerTexts()
      const forbidden = offered.filter((text) => CHANGES.test(text))
      // Everybody changes what is its own: mail address and sessions.
      if (place !== '/profile') assert.deepEqual(forbidden, [], place)
      const buttons = page.locator('main button:not([disabled])')
      for (let index = 0; index < (await buttons.count()); index++) {
        if ((await buttons.nth(index).textContent()) === COPY) continue
        await buttons.nth(index).click()
        // It opens a dialog over the page, or another place.
        await visit(page, '/nothing')
        await visit(page, place)
      }
    }
    assert.deepEqual([complaints, refused, changes], [[], [], []])
    await close()
  })
})

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
