/** Four eyes in the console: one administrator asks, another one decides; and the question who is there before a grave act. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type AdminClient, administrator, createAdministrator } from '../support/admin.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { assertAccessible, type ConsoleTab, carryOut, NARROW, press, signInOn } from './browser.ts'
import { consoleOf } from './suite.ts'

describe('approvals in the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('strict console'))
  let carol: AdminClient
  let bobsPassword: string
  before(async () => {
    bobsPassword = await createAdministrator(at.service.database, 'bob')
    carol = await administrator(at.service, 'carol')
  })

  const dialog = (page: Page, name: string) => page.getByRole('dialog', { name })
  const decide = (page: Page, title: string) => press(dialog(page, title), title)

  async function bob(place: string): Promise<ConsoleTab> {
    const tab = await at.browser.open({ place, viewport: NARROW })
    await signInOn(tab.page, 'bob', bobsPassword)
    await tab.page.locator('main h1').first().waitFor()
    return tab
  }

  /** The dialog of the act is followed by the one that says who else is needed. */
  async function askForApproval(page: Page, reason: string): Promise<void> {
    const asking = dialog(page, 'Another person must approve')
    await asking.getByText('Nothing is done before that', { exact: false }).waitFor()
    await assertAccessible(page, 'asking for approval')
    await asking.getByLabel('Reason for approval').fill(reason)
    await press(asking, 'Ask for approval')
    await page.getByText('Asked for approval: another person decides.').waitFor()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }

  async function askedToResume(reason: string): Promise<ConsoleTab> {
    await carol.send('POST', '/signing', { stopped: true })
    const ada = await at.browser.as('admin', '/operation')
    await press(ada.page, 'Resume signing')
    await decide(ada.page, 'Resume signing')
    await askForApproval(ada.page, reason)
    return ada
  }

  test('a request is rejected with a reason, which its maker reads', async () => {
    const ada = await askedToResume('all is well')
    const [request] = (await carol.get('/approvals?waiting=true')).json
    const other = await bob(`/approvals/${request.id}`)
    await press(other.page, 'Reject')
    await dialog(other.page, 'Reject').getByLabel('Reason').fill('the audit is not done')
    await decide(other.page, 'Reject')
    await other.page.getByText('rejected', { exact: true }).waitFor()
    await ada.page.goto(`${at.browser.url}#/approvals/${request.id}`)
    await ada.page.getByText('the audit is not done').waitFor()
  })

  test('signing resumes when another administrator approves', async () => {
    const ada = await askedToResume('the key is in its safe')
    assert.equal((await carol.get('/signing')).json.signing_stopped, true)
    const other = await bob('/approvals')
    await other.page.getByRole('link', { name: 'Resume signing' }).first().click()
    await other.page.getByText('the key is in its safe').waitFor()
    await assertAccessible(other.page, 'a request for approval')
    await press(other.page, 'Approve')
    await assertAccessible(other.page, 'approving')
    await decide(other.page, 'Approve')
    await other.page.getByText('Approved, and done.').waitFor()
    await other.page.getByText('approved', { exact: true }).waitFor()
    assert.equal((await carol.get('/signing')).json.signing_stopped, false)
    assert.deepEqual([...ada.complaints, ...other.complaints], [])
  })

  test('who asked for a user and who approved see one half of the password each; nobody approves an own request', async () => {
    const ada = await at.browser.as('admin', '/users')
    await press(ada.page, 'Create a user')
    await dialog(ada.page, 'Create a user').getByLabel('Username').fill('frank')
    await dialog(ada.page, 'Create a user').getByLabel('Mail address').fill('frank@example.com')
    await decide(ada.page, 'Create a user')
    await askForApproval(ada.page, 'frank joins the team')
    const [request] = (await carol.get('/approvals?waiting=true')).json
    await ada.page.goto(`${at.browser.url}#/approvals/${request.id}`)
    await ada.page.getByRole('button', { name: 'Withdraw' }).waitFor()
    assert.equal(await ada.page.getByRole('button', { name: 'Approve' }).count(), 0)
    const other = await bob(`/approvals/${request.id}`)
    await press(other.page, 'Show all of it')
    await other.page.getByText('"email": "frank@example.com"').waitFor()
    await assertAccessible(other.page, 'all of a request')
    await press(other.page, 'Approve')
    await decide(other.page, 'Approve')
    await dialog(other.page, request.summary).getByRole('heading', { name: 'Second half of the password' }).waitFor()
    await press(other.page, 'I have copied it')
    await ada.page.reload()
    await press(ada.page, 'Show the secret')
    await decide(ada.page, 'Show the secret')
    await dialog(ada.page, request.summary).getByRole('heading', { name: 'First half of the password' }).waitFor()
    await press(ada.page, 'I have copied it')
    await ada.page.getByRole('button', { name: 'Show the secret' }).waitFor({ state: 'detached' })
    assert.deepEqual([...ada.complaints, ...other.complaints], [])
  })

  test('an old sign-in is confirmed over the page, and the request goes on', async () => {
    const ada = await at.browser.as('admin', '/tokens')
    await at.sql("UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'")
    await carryOut(ada.page, 'Create a token', 'Create a token', { Name: 'monitoring' })
    const asking = dialog(ada.page, 'Confirm it is you')
    await asking.getByLabel('Password').fill('wrong')
    await press(asking, 'Confirm')
    await asking.getByRole('alert').waitFor()
    await assertAccessible(ada.page, 'confirming')
    await asking.getByLabel('Password').fill(at.browser.passwords.get('admin') as string)
    await press(asking, 'Confirm')
    await ada.page.getByText('Copy it now', { exact: false }).waitFor()
  })
})
