/** Every page of the navigation in both roles, dark and light, wide and narrow. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Role } from '../../src/domain/administrator.ts'
import { closeConnections } from '../support/acme-client.ts'
import { adminConfig } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { assertAccessible, ConsoleBrowser, NARROW, settled, WIDE } from './browser.ts'
import { addRows, type Issued, issue } from './seed.ts'

/** What no role but the administrator's may call. */
const ADMINISTRATORS_BUTTONS =
  /^(?:Revoke|Delete|Create|New|Deactivate|Stop signing|Rebuild|Ask to renew|Purge|Retry all)/

describe('every page', { ...requireCommand('chromium'), timeout: 600_000 }, () => {
  let service: TestService
  let browser: ConsoleBrowser
  let issued: Issued
  before(async () => {
    service = await startTestService({ config: { ...adminConfig(), crl: { enabled: true } } })
    browser = await ConsoleBrowser.start(service)
    issued = await issue(service, ['www.shop.test', 'shop.test'])
    await addRows(service, issued, ['mail.shop.test', 'db-1.shop.test', 'db-2.shop.test'])
  })
  after(async () => {
    closeConnections()
    await browser?.close()
    await service?.dispose()
  })

  const places = (hrefs: readonly string[]) => [...hrefs, `#/certificates/${issued.serial}`, '#/nothing']

  for (const [role, looks] of [
    [
      'admin',
      [
        { colorScheme: 'dark', size: WIDE },
        { colorScheme: 'light', size: NARROW },
      ],
    ],
    ['auditor', [{ colorScheme: 'light', size: WIDE }]],
  ] as const satisfies readonly (readonly [Role, readonly object[]])[]) {
    for (const { colorScheme, size } of looks)
      test(`as ${role}, ${colorScheme}, ${size.width} pixels wide`, async () => {
        const { page, complaints, close } = await browser.as(role, { colorScheme })
        const hrefs = (await page.evaluate(
          `[...document.querySelectorAll('nav a[href]')].map((link) => link.getAttribute('href'))`,
        )) as string[]
        await page.setViewportSize(size)
        assert.ok(hrefs.length >= 3, hrefs.join(' '))
        for (const href of places([...new Set(hrefs)])) {
          await page.evaluate(`location.hash = ${JSON.stringify(href)}`)
          await settled(page)
          await assertAccessible(page, `${href} as ${role}, ${colorScheme}, ${size.width}`)
          const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
          assert.ok(Number(overflow) <= 0, `${href} is ${overflow} pixels too wide`)
          assert.equal(await page.getByRole('alert').count(), 0, `${href} as ${role} shows a problem`)
          if (role !== 'auditor') continue
          const names = await page.locator('main button').allInnerTexts()
          assert.deepEqual(
            names.filter((name) => ADMINISTRATORS_BUTTONS.test(name)),
            [],
            href,
          )
        }
        assert.deepEqual(complaints, [])
        await close()
      })
  }
})
