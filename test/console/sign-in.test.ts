/** Signing in to a console on a port of its own, in Chromium: by passkeys of its virtual authenticator, and at a real OpenID Connect provider. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type AdminClient, adminConfig, administrator, adminRequest } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { CLIENT, startProvider, type TestProvider } from '../support/oidc-provider.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { assertAccessible } from './browser.ts'
import { consoleOf } from './suite.ts'

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

/** At a host name, since no passkey is bound to an address. */
async function startAtHostName(more: Record<string, unknown>): Promise<TestService> {
  const port = await freePort()
  const baseUrl = `http://localhost:${port}`
  const own = { console_url: `${baseUrl}/api/console/`, listen: { port } }
  const service = await startTestService({ config: adminConfig({ ...own, ...more }) })
  return { ...service, baseUrl }
}

async function addLaptop(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Laptop')
  await page.getByRole('dialog').getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('rowheader', { name: 'Laptop' }).waitFor()
}

describe('signing in to the console', requireCommand('chromium-headless-shell'), () => {
  let provider: TestProvider
  let admin: AdminClient
  const at = consoleOf(async () => {
    provider = await startProvider(() => [at.browser.url])
    return startAtHostName({
      oidc: {
        issuer: provider.issuer,
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        name: 'Corp Login',
        roles: [
          { group: 'ca-admins', role: 'admin' },
          { group: 'ca-readers', role: 'auditor' },
        ],
      },
    })
  })
  before(async () => {
    admin = await administrator(at.service, 'carol')
  })
  after(async () => {
    await at.service?.dispose()
    await provider?.close()
  })

  test('the port of its own serves the console with its policy', async () => {
    const page = await fetch(at.browser.url)
    assert.match(page.headers.get('content-security-policy') ?? '', /^default-src 'none'; script-src 'self';/)
    const moved = await fetch(at.browser.url.slice(0, -1), { redirect: 'manual' })
    assert.deepEqual([page.status, moved.status, moved.headers.get('location')], [200, 308, 'console/'])
  })

  test('a passkey is registered, asked for behind the password, signs in alone, and confirms a grave act', async () => {
    const { page } = await at.browser.open()
    await withAuthenticator(page)
    const password = at.browser.passwords.get('admin') as string
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
    await page.goto(`${at.browser.url}#/profile`)
    await addLaptop(page)
    await assertAccessible(page, 'a profile with a passkey')
    await signOut()
    await typePassword()
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await page.getByRole('cell', { name: 'password, passkey' }).waitFor()
    await signOut()
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await rowsIn(at.service.database, "UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'")
    await page.getByRole('button', { name: 'Remove the passkey Laptop' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    const confirm = page.getByRole('dialog', { name: 'Confirm it is you' })
    await confirm.getByText('Your browser asks for your passkey.').waitFor()
    await confirm.getByRole('button', { name: 'Confirm' }).click()
    await page.getByText('No passkeys').waitFor()
  })

  /** On the provider's own page. */
  async function prove(page: Page, name: string): Promise<void> {
    await page.locator('input[name=login]').fill(name)
    await page.locator('input[name=password]').fill('any')
    await page.getByRole('button', { name: /sign.?in/i }).click()
  }

  /** The first time, the provider also asks whether the service may know the user. */
  async function signIn(page: Page, name: string): Promise<void> {
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).click()
    await prove(page, name)
    await page.getByRole('button', { name: /continue/i }).click()
  }

  test('goes to the provider, comes back to the page that was asked for, and leaves nothing in the address', async () => {
    provider.groups.set('grace', ['ca-readers', 'ca-admins'])
    const { page } = await at.browser.open('/orders')
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).waitFor()
    await assertAccessible(page, 'sign-in with a provider')
    await signIn(page, 'grace')
    await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor()
    assert.equal(new URL(page.url()).search, '')
    await page.goto(`${at.browser.url}#/profile`)
    await page.getByRole('cell', { name: 'OpenID Connect' }).waitFor()
    const [{ role, email }] = (await admin.get('/users?username=grace')).json
    assert.deepEqual([role, email], ['admin', 'grace@corp.example'])
  })

  test('whoever has no group is told so, and is no user', async () => {
    const { page } = await at.browser.open()
    await signIn(page, 'nemo')
    await page.getByText('None of your groups may sign in here; ask an administrator.').waitFor()
    assert.deepEqual((await admin.get('/users?username=nemo')).json, [])
  })

  test('signing out ends the session here, and the provider is asked to end its own', async () => {
    provider.groups.set('hedy', ['ca-readers'])
    const { page } = await at.browser.open()
    await signIn(page, 'hedy')
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.waitForURL((url) => url.origin === provider.issuer)
    await page.goto(at.browser.url)
    await page.getByLabel('Username').waitFor()
  })

  test('a link with the reply of another sign-in signs nobody in', async () => {
    const { page } = await at.browser.open()
    await page.goto(`${at.browser.url}?code=stolen&state=stolen`)
    await page.getByText('This sign-in was not begun in this tab.').waitFor()
    await page.getByLabel('Username').waitFor()
    assert.equal(new URL(page.url()).search, '')
  })

  test('a reply that was sent once is worth nothing again, neither here nor at the provider', async () => {
    provider.groups.set('joan', ['ca-readers'])
    const { page } = await at.browser.open()
    const sent = page.waitForRequest((request) => request.url().endsWith('/auth/oidc/finish'))
    await signIn(page, 'joan')
    const body = (await sent).postDataJSON()
    await page.getByRole('heading', { level: 1 }).waitFor()
    const again = await adminRequest(at.service.baseUrl, 'POST', '/auth/oidc/finish', { body })
    assert.equal(again.status, 401)
  })

  test('a grave act asks for the proof at the provider, in a new tab, and then goes on', async () => {
    provider.groups.set('kay', ['ca-admins'])
    const { page } = await at.browser.open('/tokens')
    await signIn(page, 'kay')
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
  })

  test('a session that ended is renewed in a new tab, and the page goes on as it was', async () => {
    provider.groups.set('ida', ['ca-admins'])
    const { page } = await at.browser.open('/tokens')
    await signIn(page, 'ida')
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
  })
})

describe('where a second factor is required', {
  ...requireCommand('chromium-headless-shell'),
}, () => {
  const at = consoleOf(() => startAtHostName({ require_second_factor: true }))
  after(() => at.service?.dispose())

  test('a password leads to the registration of a passkey, and from there to everything', async () => {
    const { page } = await at.browser.open()
    await withAuthenticator(page)
    await page.getByLabel('Username').fill('ada')
    await page.getByLabel('Password').fill(at.browser.passwords.get('admin') as string)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await page.getByText('A second factor is required here').waitFor()
    await assertAccessible(page, 'a profile that needs a passkey')
    await addLaptop(page)
    await page.getByText('A second factor is required here').waitFor({ state: 'detached' })
    await page.goto(`${at.browser.url}#/`)
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  })
})
