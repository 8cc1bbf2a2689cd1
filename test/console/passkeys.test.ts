/** Passkeys in Chromium with its virtual authenticator: registered, used alone and behind a password, and to confirm. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { adminConfig } from '../support/admin.ts'
import { freePort } from '../support/free-port.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { assertAccessible, ConsoleBrowser } from './browser.ts'

async function withAuthenticator(page: Page): Promise<void> {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
    },
  })
}

describe('passkeys in a browser', requireCommand('chromium-headless-shell'), () => {
  let service: TestService
  let browser: ConsoleBrowser
  let url: string
  before(async () => {
    const { admin_api, ...others } = adminConfig()
    const port = await freePort()
    // No passkey is bound to an address.
    url = `http://localhost:${port}/api/console/`
    service = await startTestService({
      config: { ...others, admin_api: { ...admin_api, console_url: url, listen: { port }, recent_sign_in_seconds: 1 } },
    })
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('one is registered, asked for behind the password, signs in alone, and confirms a grave act', async () => {
    const { page, complaints, close } = await browser.open()
    await page.goto(url)
    await withAuthenticator(page)
    const password = browser.passwords.get('admin') as string
    const typePassword = async () => {
      await page.getByLabel('Username').fill('ada')
      await page.getByLabel('Password').fill(password)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    }
    const signOut = async () => {
      await page.getByRole('button', { name: 'Sign out', exact: true }).click()
      await page.getByLabel('Username').waitFor()
    }
    await typePassword()
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    await page.goto(`${url}#/profile`)
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('Laptop')
    await page.getByRole('dialog').getByRole('button', { name: 'Add a passkey' }).click()
    const confirm = page.getByRole('dialog', { name: 'Confirm it is you' })
    // The sign-in may be a second old already.
    const registered = page.getByRole('rowheader', { name: 'Laptop' })
    await confirm.or(registered).first().waitFor()
    if (await confirm.isVisible()) {
      await confirm.getByLabel('Password').fill(password)
      await confirm.getByRole('button', { name: 'Confirm' }).click()
    }
    await registered.waitFor()
    await assertAccessible(page, 'a profile with a passkey')
    await signOut()
    await typePassword()
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await page.getByRole('cell', { name: 'password, passkey' }).waitFor()
    await signOut()
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await page.waitForTimeout(1_100)
    await page.getByRole('button', { name: 'Remove the passkey Laptop' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await confirm.getByText('Your browser asks for your passkey.').waitFor()
    await confirm.getByRole('button', { name: 'Confirm' }).click()
    await page.getByText('No passkeys').waitFor()
    assert.deepEqual(complaints, [])
    await close()
  })
})

describe('where a second factor is required', {
  ...requireCommand('chromium-headless-shell'),
}, () => {
  let service: TestService
  let browser: ConsoleBrowser
  let url: string
  before(async () => {
    const { admin_api, ...others } = adminConfig()
    const port = await freePort()
    url = `http://localhost:${port}/api/console/`
    const more = { console_url: url, listen: { port }, require_second_factor: true }
    service = await startTestService({ config: { ...others, admin_api: { ...admin_api, ...more } } })
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('a password leads to the registration of a passkey, and from there to everything', async () => {
    const { page, close } = await browser.open()
    await page.goto(url)
    await withAuthenticator(page)
    await page.getByLabel('Username').fill('ada')
    await page.getByLabel('Password').fill(browser.passwords.get('admin') as string)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await page.getByText('A second factor is required here').waitFor()
    await assertAccessible(page, 'a profile that needs a passkey')
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('Laptop')
    await page.getByRole('dialog').getByRole('button', { name: 'Add a passkey' }).click()
    await page.getByRole('rowheader', { name: 'Laptop' }).waitFor()
    await page.getByText('A second factor is required here').waitFor({ state: 'detached' })
    await page.goto(`${url}#/`)
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    await close()
  })
})
