/** The jobs that administrators come with, each with its clicks counted; a filled field is none. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import type { Role } from '../../src/domain/administrator.ts'
import { type AdminClient, administrator } from '../support/admin.ts'
import { made } from '../support/bound.ts'
import { plainCsr } from '../support/csr.ts'
import { P256_KEY } from '../support/keys.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { found, settled, visit } from './browser.ts'
import { addRows, issue } from './seed.ts'
import { consoleOf } from './suite.ts'

/** Counts, and says which click was one too many. */
class Counted {
  clicks = 0
  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async click(target: Locator): Promise<void> {
    this.clicks++
    await target.click()
  }

  button(name: string | RegExp): Promise<void> {
    return this.click(this.page.getByRole('button', { name, exact: typeof name === 'string' }).first())
  }

  link(name: string): Promise<void> {
    return this.click(this.page.getByRole('link', { name, exact: true }).first())
  }

  inDialog(name: string): Promise<void> {
    return this.click(this.page.getByRole('dialog').getByRole('button', { name, exact: true }))
  }
}

describe('a job in the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let admin: AdminClient
  before(async () => {
    admin = await administrator(at.service, 'carol')
    const issued = await issue(at.service, ['shop.test'])
    await addRows(at.service, issued, ['old.shop.test'])
    await at.sql(
      `UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + interval '5 days'
        WHERE names = '{old.shop.test}'`,
    )
    await made(admin, '/csr-profiles', { name: 'servers', profile_data: { san_maximum: 3 } })
  })

  /** @param most clicks from the overview */
  const job = (name: string, most: number, run: (tab: Counted) => Promise<void>, role: Role = 'admin') =>
    test(`${name}: at most ${most} clicks`, async () => {
      const { page } = await at.browser.as(role)
      await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
      // Parts that come later move the buttons below them, and a click that begins on one then ends beside it.
      await settled(page)
      const tab = new Counted(page)
      await run(tab)
      assert.ok(tab.clicks <= most, `${tab.clicks} clicks`)
    })

  job('onboard a team, and save all it needs', 4, async (tab) => {
    await tab.link('Onboard a team')
    await tab.page.getByLabel('Team', { exact: true }).fill('Payments')
    await tab.button('Onboard')
    await tab.page.getByRole('button', { name: 'Save as a file' }).waitFor()
    await Promise.all([tab.page.waitForEvent('download'), tab.button('Save as a file')])
  })

  job('see why a name has no certificate', 2, async (tab) => {
    await tab.page.keyboard.press('/')
    await tab.page.getByRole('combobox', { name: 'Search everything' }).fill('shop.test')
    await found(tab.page, 'shop.test')
    await tab.click(tab.page.getByRole('option', { name: /shop\.test/ }).first())
    await tab.page.getByRole('heading', { level: 1, name: /shop\.test/ }).waitFor()
  })

  job('find certificates at risk, and ask their clients to renew', 4, async (tab) => {
    await tab.link('At risk')
    await tab.click(tab.page.getByRole('checkbox', { name: 'Select all rows that are shown' }))
    await tab.button(/^Ask to renew/)
    await tab.inDialog('Ask to renew now')
    await tab.page.locator('.toast').getByText(/renew/).waitFor()
  })

  job('give an auditor access', 3, async (tab) => {
    await tab.link('Users')
    await tab.button('Create a user')
    await tab.page.getByRole('dialog').getByLabel('Username').fill('audrey')
    await tab.page.getByRole('dialog').getByLabel('Mail address').fill('audrey@corp.example')
    await tab.inDialog('Create a user')
    await tab.page.getByRole('dialog', { name: 'The user audrey' }).waitFor()
  })

  job('see who did what yesterday', 2, async (tab) => {
    await tab.link('Audit log')
    await tab.link('Yesterday')
    await tab.page.waitForURL(/since=.*until=/)
    await tab.page.getByText('No matches').waitFor()
  })

  job(
    'see who did what today, as an auditor',
    2,
    async (tab) => {
      await tab.link('Audit log')
      await tab.link('Today')
      await tab.page.getByText('CSR profile: create').last().waitFor()
    },
    'auditor',
  )

  job('see whether everything is healthy, mail too', 1, async (tab) => {
    const health = tab.page.locator('section', { hasText: 'Health of this instance' }).last()
    await health.getByText('no mail is known to have been sent').waitFor()
    await health.getByText('Signer').first().waitFor()
  })

  job('start maintenance with a reason', 2, async (tab) => {
    await tab.button('Start maintenance')
    await tab.page.getByRole('dialog').getByLabel('Reason').fill('the database moves')
    await tab.inDialog('Start maintenance')
    await tab.page.getByRole('button', { name: 'End maintenance' }).waitFor()
    await visit(tab.page, '/operation')
    await tab.page.getByText('the database moves').waitFor()
    await tab.page.getByText('ada', { exact: true }).first().waitFor()
  })

  job(
    'end maintenance, as an operator',
    2,
    async (tab) => {
      await tab.button('End maintenance')
      await tab.inDialog('End maintenance')
      await tab.page.getByRole('button', { name: 'Start maintenance' }).waitFor()
    },
    'operator',
  )

  job('block a key', 3, async (tab) => {
    await tab.link('Blocked keys')
    await tab.page.getByLabel('SHA-256 of the public key').fill('ab'.repeat(32))
    await tab.button('Block the key')
    await tab.inDialog('Block the key')
    await tab.page.locator('tbody').getByText('abab').first().waitFor()
  })

  job('check a request against a CSR profile', 3, async (tab) => {
    await tab.link('CSR profiles')
    await tab.link('servers')
    const csr = plainCsr(P256_KEY, ['www.shop.test']).toString('base64')
    const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${csr}\n-----END CERTIFICATE REQUEST-----\n`
    await tab.page.getByLabel('Certificate signing request (CSR)').fill(pem)
    await tab.button('Validate')
    await tab.page.getByText('The request matches.').waitFor()
  })
})
