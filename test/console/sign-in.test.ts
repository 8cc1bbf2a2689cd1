/** Signing in to a console on a port of its own, in Chromium: by passkeys of its virtual authenticator, and at a real OpenID Connect provider. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { CLIENT, startProvider, type TestProvider } from '../support/admin/oidc-provider.ts'
import { type AdminClient, administrator, adminRequest } from '../support/admin.ts'
import { freePort } from '../support/free-port.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { assertAccessible, carryOut, confirm, press, sees, signInOn } from './browser.ts'
import { type ConsoleSuite, consoleOf } from './suite.ts'

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

/** On a port of its own, at a host name, since no passkey is bound to an address. It ends with the suite. */
function consoleAtHostName(more: () => Promise<Record<string, unknown>>): ConsoleSuite {
  let instance: AdminInstance
  const at = consoleOf(async () => {
    const service = await sharedService('console')
    const port = await freePort()
    const baseUrl = `http://localhost:${port}`
    const own = { console_url: `${baseUrl}/api/console/`, listen: { port } }
    instance = await adminInstance(service, { admin_api: { ...own, ...(await more()) } })
    return { ...service, baseUrl }
  })
  after(() => instance?.close())
  return at
}

async function addLaptop(page: Page): Promise<void> {
  await carryOut(page, 'Add a passkey', 'Add a passkey', { Name: 'Laptop' })
  await page.getByRole('rowheader', { name: 'Laptop' }).waitFor()
}

describe('signing in to the console', requireCommand('chromium-headless-shell'), () => {
  let provider: TestProvider
  let admin: AdminClient
  const at = consoleAtHostName(async () => {
    provider = await startProvider(() => [at.browser.url])
    return {
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
    }
  })
  before(async () => {
    admin = await administrator(at.service, 'carol')
  })
  after(async () => {
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
    const typePassword = () => signInOn(page, 'ada', password)
    const signOut = async () => {
      await press(page, 'Sign out')
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
    await press(page, 'Sign in with a passkey')
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await at.sql("UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'")
    await carryOut(page, 'Remove the passkey Laptop', 'Remove')
    const question = page.getByRole('dialog', { name: 'Confirm it is you' })
    await question.getByText('Your browser asks for your passkey.').waitFor()
    await press(question, 'Confirm')
    await page.getByText('No passkeys').waitFor()
  })

  test('a refused passkey says so in its dialog, and the session goes on', async () => {
    const { page } = await at.browser.as('admin', '/profile')
    await withAuthenticator(page)
    // An answer to another challenge than that of the service.
    await page.route('**/me/passkeys/options', async (route) => {
      const reply = await route.fetch()
      await route.fulfill({ response: reply, json: { ...(await reply.json()), challenge: 'AAAA' } })
    })
    await carryOut(page, 'Add a passkey', 'Add a passkey', { Name: 'Refused' })
    await sees(page.getByRole('dialog'), 'The passkey was not accepted; begin again.')
    assert.equal(await page.getByText('Your session has ended', { exact: false }).count(), 0)
  })

  test('a session that ends while the browser asks begins the whole registration again', async () => {
    const { page } = await at.browser.as('admin', '/profile')
    await withAuthenticator(page)
    let sent = 0
    await page.route('**/me/passkeys', async (route) => {
      if (route.request().method() === 'POST' && sent++ === 0)
        await at.sql("DELETE FROM admin_sessions WHERE user_id = (SELECT id FROM admin_users WHERE username = 'ada')")
      await route.continue()
    })
    await carryOut(page, 'Add a passkey', 'Add a passkey', { Name: 'Twice' })
    const again = page.getByRole('dialog', { name: 'Sign in again' })
    await again.waitFor()
    await signInOn(again, 'ada', at.browser.passwords.get('admin') as string)
    await page.getByRole('rowheader', { name: 'Twice' }).waitFor()
    assert.equal(sent, 3)
    await at.sql('DELETE FROM admin_passkeys')
  })

  test('at another address the page says where passkeys work, and offers none', async () => {
    const { page } = await at.browser.open()
    await page.goto(at.browser.url.replace('localhost', '127.0.0.1'))
    await sees(page, `Passkeys work at ${new URL(at.browser.url).origin} alone`)
    assert.equal(await page.getByRole('button', { name: 'Sign in with a passkey' }).count(), 0)
  })

  /** On the provider's own page. */
  async function prove(page: Page, name: string): Promise<void> {
    await page.locator('input[name=login]').fill(name)
    await page.locator('input[name=password]').fill('any')
    await page.getByRole('button', { name: /sign.?in/i }).click()
  }

  /** The first time, the provider also asks whether the service may know the user. */
  async function signIn(page: Page, name: string): Promise<void> {
    await press(page, 'Sign in with Corp Login')
    await prove(page, name)
    await page.getByRole('button', { name: /continue/i }).click()
  }

  async function proveInNewTab(page: Page, title: string, name: string): Promise<void> {
    const question = page.getByRole('dialog', { name: title })
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      question.getByRole('link', { name: 'Sign in with Corp Login in a new tab' }).click(),
    ])
    await tab.waitForURL((url) => url.origin === provider.issuer)
    await prove(tab, name)
  }

  async function signedIn(name: string, groups: readonly string[], place = '/'): Promise<Page> {
    provider.groups.set(name, groups)
    const { page } = await at.browser.open(place)
    await signIn(page, name)
    return page
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

  test('whoever has no group, or of whose groups nothing is said, is told so, and is no user', async () => {
    provider.groups.set('nora', ['others'])
    const said = { nora: 'None of your groups may sign in here: ["others"]', nemo: "sent no claim 'groups'" }
    for (const [name, sentence] of Object.entries(said)) {
      const { page } = await at.browser.open()
      await signIn(page, name)
      await page.getByText(sentence).waitFor()
      assert.deepEqual((await admin.get(`/users?username=${name}`)).json, [])
    }
  })

  test('signing out ends the session here, and the provider is asked to end its own', async () => {
    const page = await signedIn('hedy', ['ca-readers'])
    await page.getByRole('heading', { level: 1 }).waitFor()
    await press(page, 'Sign out')
    await page.waitForURL((url) => url.origin === provider.issuer)
    await page.goto(at.browser.url)
    await page.getByLabel('Username').waitFor()
  })

  test('ways to sign in that cannot be read are said, and asked for again', async () => {
    const { page } = await at.browser.open()
    const METHODS = '**/auth/methods'
    await page.route(METHODS, (route) =>
      route.fulfill({ status: 503, json: { error: 'unavailable', message: 'busy' } }),
    )
    await page.reload()
    await page.getByText('Other ways to sign in could not be read.').waitFor()
    await page.unroute(METHODS)
    await press(page, 'Try again')
    await page.getByRole('button', { name: 'Sign in with Corp Login' }).waitFor()
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
    // Not a heading: the page for signing in has one, too, and a second reply could then be the first to arrive.
    const answered = page.waitForResponse((reply) => reply.url().endsWith('/auth/oidc/finish'))
    await signIn(page, 'joan')
    const first = await answered
    assert.equal(first.status(), 200)
    const body = first.request().postDataJSON()
    const again = await adminRequest(at.service.baseUrl, 'POST', '/auth/oidc/finish', { body })
    assert.equal(again.status, 401)
  })

  test('a grave act asks for the proof at the provider, in a new tab, and then goes on', async () => {
    const page = await signedIn('kay', ['ca-admins'], '/tokens')
    await page.getByRole('heading', { name: 'API tokens' }).waitFor()
    await carryOut(page, 'Create a token', 'Create a token', { Name: 'kept' })
    await proveInNewTab(page, 'Confirm it is you', 'kay')
    await page.getByRole('dialog', { name: 'The token kept' }).waitFor()
  })

  test('a session that ended is renewed in a new tab, and the page goes on as it was', async () => {
    const page = await signedIn('ida', ['ca-admins'], '/tokens')
    await page.getByRole('heading', { name: 'API tokens' }).waitFor()
    await press(page, 'Create a token')
    await page.getByRole('dialog').getByLabel('Name').fill('typed before')
    const [{ id }] = (await admin.get('/users?username=ida')).json
    for (const session of (await admin.get(`/users/${id}/sessions`)).json)
      await admin.send('DELETE', `/users/${id}/sessions/${session.id}`)
    await confirm(page, 'Create a token')
    await proveInNewTab(page, 'Sign in again', 'ida')
    await page.getByRole('dialog', { name: 'The token typed before' }).waitFor()
  })
})

describe('where a second factor is required', {
  ...requireCommand('chromium-headless-shell'),
}, () => {
  const at = consoleAtHostName(async () => ({ require_second_factor: true }))

  test('a password leads to the registration of a passkey, and from there to everything', async () => {
    const { page } = await at.browser.open()
    await withAuthenticator(page)
    await signInOn(page, 'ada', at.browser.passwords.get('admin') as string)
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    await page.getByText('A second factor is required here').waitFor()
    await assertAccessible(page, 'a profile that needs a passkey')
    await addLaptop(page)
    await page.getByText('A second factor is required here').waitFor({ state: 'detached' })
    await page.goto(`${at.browser.url}#/`)
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  })
})
