/** Every page of the console by every role, in light and dark, wide and narrow; and every button that an auditor has. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { Role } from '../../src/domain/administrator.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, drawn, NARROW, press, type Rules, settled, visit, WIDE } from './browser.ts'
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
 * No width has colours that the other has not, so each is seen in one scheme. Colours and boxes are looked at as an administrator
 * sees them: another role's page has less, and only what it is made of can be wrong there.
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
const AND: Readonly<Partial<Record<Role, string>>> = {
  auditor: 'whatever button is pressed, nothing changes, and no link leads to a closed one',
}
const CLOSED = 'Your role does not allow this.'
/** Below the frame, without texts and ids. */
const ELEMENTS = `[...document.querySelectorAll('main *')]
  .map(({ tagName, attributes }) => [tagName, ...[...attributes].map(({ name }) => name)].join(' ')).join()`
const OFFERED = 'main a.button, main button:not([disabled])'
const PRESSED = 'main button:not([disabled])'

describe('a tour of the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let data: Populated
  /** What an administrator's pages are made of. */
  const known = new Map<string, string>()
  before(async () => {
    data = await populate(at.service)
  })

  const places = () =>
    `
      / /certificates /at-risk /certificates/${data.serial} /bulk-revocations /bulk-revocations/${data.jobId}
      /accounts /accounts/${data.accountId} /failures /failures?by=cause /names/www.shop.test /names/fails.shop.test
      /orders /orders/${data.orderId} /authorizations/${data.authorizationId} /identifiers /eab
      /eab/${data.credentialId} /onboarding /onboarding/${data.credentialId} /csr-profiles
      /csr-profiles/${data.profileId} /blocked-keys /incident /incident/${data.incidentId} /audit-log /lost-decisions /notifications
      /events /operation /issuers /crl /settings?part=server /users /approvals /tokens /profile /nothing
      /bulk-revocations/new /csr-profiles/new
    `
      .trim()
      .split(/\s+/)

  for (const role of Object.keys(LOOKS) as Role[])
    test(`as ${role} each page passes axe, fits, shows no problem and is refused nothing, ${AND[role] ?? 'and no link leads to a closed one'}`, async () => {
      const { page } = await at.browser.as(role)
      const refused = refusalsOf(page)
      const changes = changesOf(page)
      const linked = new Set<string>()
      const closed = new Set<string>()
      for (const place of places()) {
        await visit(page, place)
        if ((await page.getByText(CLOSED).count()) > 0) closed.add(kindOf(place))
        for (const link of await linksOf(page)) linked.add(kindOf(link))
        const elements = String(await page.evaluate(ELEMENTS))
        for (const look of LOOKS[role]) {
          await requireInOrder(page, `${place} as ${role}`, look)
          // The same elements are the same to axe.
          if (role === 'admin' || known.get(place) !== elements)
            await assertAccessible(page, `${place} as ${role}`, look.rules, place === places()[0])
        }
        if (role === 'admin') known.set(place, elements)
        if (role === 'auditor') await pressAll(page, place)
      }
      assert.deepEqual([refused, changes], [[], []])
      assert.deepEqual(
        [...linked].filter((kind) => closed.has(kind)),
        [],
      )
      const toured = new Set(places().map(kindOf))
      assert.deepEqual([...linked].filter((kind) => !toured.has(kind)).sort(), [])
    })

  async function requireInOrder(page: Page, where: string, { viewport, colorScheme }: Look): Promise<void> {
    const what = `${where}, ${colorScheme}, ${viewport.width} pixels wide`
    await page.setViewportSize(viewport)
    await page.emulateMedia({ colorScheme })
    // A chart is drawn anew for the width.
    await until(`${what} fits`, async () => {
      return Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth')) <= 0
    })
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
    await press(page, 'Menu')
    await page.getByRole('link', { name: 'Audit log' }).waitFor()
    await assertAccessible(page, 'the menu', 'all', true)
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
    await becomes(() => page.getByRole('button', { name: 'Menu' }).getAttribute('aria-expanded'), 'false')
  })
})

/** Presses the buttons of a page, of which none is offered to change something. */
async function pressAll(page: Page, place: string): Promise<void> {
  const forbidden = (await page.locator(OFFERED).allInnerTexts()).filter((text) => CHANGES.test(text))
  // Everybody changes what is its own: mail address and sessions.
  if (place !== '/profile') assert.deepEqual(forbidden, [], place)
  const pressed = new Set<string>()
  for (let index = 0; ; index++) {
    const name = (await page.locator(PRESSED).allTextContents())[index]
    if (name === undefined) return
    // Copying needs the permission of a person and asks the service for nothing. A row's button does what another row's does.
    if (name === 'Copy' || pressed.has(name)) continue
    pressed.add(name)
    const before = page.url()
    await page.locator(PRESSED).nth(index).click()
    await drawn(page)
    await settled(page)
    if (page.url() === before && (await page.getByRole('dialog').count()) === 0) continue
    await visit(page, '/nothing')
    await visit(page, place)
  }
}

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
