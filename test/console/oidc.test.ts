/** Sign-in with a real OpenID Connect provider, in Chromium: there and back, a new tab, groups that change, and the end. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type AdminClient, adminConfig, administrator, adminRequest } from '../support/admin.ts'
import { CLIENT, startProvider, type TestProvider } from '../support/oidc-provider.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { assertAccessible, ConsoleBrowser } from './browser.ts'

describe('sign-in with a provider', requireCommand('chromium-headless-shell'), () => {
  let service: TestService
  let browser: ConsoleBrowser
  let provider: TestProvider
  let admin: AdminClient
  before(async () => {
    provider = await startProvider(() => [browser.url])
    const { admin_api, ...others } = adminConfig()
    const oidc = {
      issuer: provider.issuer,
      client_id: CLIENT.id,
      client_secret: CLIENT.secret,
      name: 'Corp Login',
      roles: [
        { group: 'ca-admins', role: 'admin' },
        { group: 'ca-readers', role: 'auditor' },
      ],
    }
    service = await startTestService({ config: { ...others, admin_api: { ...admin_api, oidc } } })
    browser = await ConsoleBrowser.start(service)
    admin = await administrator(service, 'carol')
  })
  after(async () => {
    await browser?.close()
    await service?.dispose()
    await provider?.close()
  })

  /** On the provider's own page. */
  async function prove(page: Page, name: string): Promise<void> {
    await page.locator('input[name=login]').fill(name)
    await page.locator('input[name=password]').fill('any')
    await page.getByRole('button', { name: /sign.?in/i }).click()
  }

  /** The first time, the provider also asks whether the service may know the user. */
  async function identify(page: Page, name: string): Promise<void> {
    await prove(page, name)
    await page.getByRole('button', { name: /continue/i }).click()
  }

  test('goes to the provider, comes back to the page that was asked for, and leaves nothing in the address', async () => {
    provider.groups.set('grace', ['ca-readers', 'ca-admins'])
    const { page, complaints, close } = await browser.open({ place: '/orders' })
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).waitFor()
    await assertAccessible(page, 'sign-in with a provider')
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await identify(page, 'grace')
    await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor()
    assert.equal(new URL(page.url()).search, '')
    await page.goto(`${browser.url}#/profile`)
    await page.getByRole('cell', { name: 'OpenID Connect' }).waitFor()
    const [{ role, email }] = (await admin.get('/users?username=grace')).json
    assert.deepEqual([role, email], ['admin', 'grace@corp.example'])
    assert.deepEqual(complaints, [])
    await close()
  })

  test('whoever has no group is told so, and is no user', async () => {
    const { page, close } = await browser.open()
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await identify(page, 'nemo')
    await page.getByText('None of your groups may sign in here; ask an administrator.').waitFor()
    assert.deepEqual((await admin.get('/users?username=nemo')).json, [])
    await close()
  })

  test('signing out ends the session here, and the provider is asked to end its own', async () => {
    provider.groups.set('hedy', ['ca-readers'])
    const { page, close } = await browser.open()
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await identify(page, 'hedy')
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.waitForURL((url) => url.origin === provider.issuer)
    await page.goto(browser.url)
    await page.getByLabel('Username').waitFor()
    await close()
  })

  test('a link with the reply of another sign-in signs nobody in', async () => {
    const { page, close } = await browser.open()
    await page.goto(`${browser.url}?code=stolen&state=stolen`)
    await page.getByText('This sign-in was not begun in this tab.').waitFor()
    await page.getByLabel('Username').waitFor()
    assert.equal(new URL(page.url()).search, '')
    await close()
  })

  test('a reply that was sent once is worth nothing again, neither here nor at the provider', async () => {
    provider.groups.set('joan', ['ca-readers'])
    const { page, close } = await browser.open()
    const sent = page.waitForRequest((request) => request.url().endsWith('/auth/oidc/finish'))
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await identify(page, 'joan')
    const body = (await sent).postDataJSON()
    await page.getByRole('heading', { level: 1 }).waitFor()
    const again = await adminRequest(service.baseUrl, 'POST', '/auth/oidc/finish', { body })
    assert.equal(again.status, 401)
    await close()
  })

  test('a grave act asks for the proof at the provider, in a new tab, and then goes on', async () => {
    provider.groups.set('kay', ['ca-admins'])
    const { page, close } = await browser.open({ place: '/tokens' })
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await identify(page, 'kay')
    await page.getByRole('heading', { name: 'API tokens' }).waitFor()
    await page.getByRole('button', { name: 'Create a token' }).first().click()
    await page.getByRole('dialog').getByLabel('Name').fill('kept')
    await page.getByRole('dialog').getByRole('button', { name: 'Create a token' }).click()
    const question = page.getByRole('dialog', { name: 'Confirm it is you' })
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      question.getByRole('link', { name: 'Sign in with Corp Login in a new tab' }).click(),
    ])
    await tab.waitForURL((url) => url.origin === provider.issuer)
    await prove(tab, 'kay')
    await page.getByRole('dialog', { name: 'The token kept' }).waitFor()
    await close()
  })

  test('a session that ended is renewed in a new tab, and the page goes on as it was', async () => {
    provider.groups.set('ida', ['ca-admins'])
    const { page, close } = await browser.open({ place: '/tokens' })
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await identify(page, 'ida')
    await page.getByRole('heading', { name: 'API tokens' }).waitFor()
    await page.getByRole('button', { name: 'Create a token' }).first().click()
    await page.getByRole('dialog').getByLabel('Name').fill('typed before')
    const [{ id }] = (await admin.get('/users?username=ida')).json
    for (const session of (await admin.get(`/users/${id}/sessions`)).json)
      await admin.send('DELETE', `/users/${id}/sessions/${session.id}`)
    await page.getByRole('dialog').getByRole('button', { name: 'Create a token' }).click()
    const again = page.getByRole('dialog', { name: 'Sign in again' })
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      again.getByRole('link', { name: 'Sign in with Corp Login in a new tab' }).click(),
    ])
    await tab.waitForURL((url) => url.origin === provider.issuer)
    await prove(tab, 'ida')
    await page.getByRole('dialog', { name: 'The token typed before' }).waitFor()
    await close()
  })
})
