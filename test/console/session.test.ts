/** Signing in and out of the console, and what happens when a session ends in the middle of work. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { adminConfig } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { assertAccessible, ConsoleBrowser } from './browser.ts'

describe('a session of the console', { ...requireCommand('chromium'), timeout: 300_000 }, () => {
  let service: TestService
  let browser: ConsoleBrowser
  before(async () => {
    service = await startTestService({ config: adminConfig() })
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('a wrong password is said at the form; the right one opens the page that was asked for', async () => {
    const { page, complaints, close } = await browser.open({ place: '/certificates' })
    await page.getByLabel('Username').fill('ada')
    await page.getByLabel('Password').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').getByText('The username or the password is wrong.').waitFor()
    await assertAccessible(page, 'sign-in')
    await page.getByLabel('Password').fill(browser.passwords.get('admin') as string)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Certificates', level: 1 }).waitFor()
    assert.deepEqual(await page.context().cookies(), [])
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.getByRole('heading', { name: 'Chancery', level: 1 }).waitFor()
    assert.equal(await page.evaluate('sessionStorage.length'), 0)
    assert.deepEqual(complaints, [])
    await close()
  })
})
