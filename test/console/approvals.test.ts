/** Four eyes in the console: one administrator asks, another one decides; and the question who is there before a grave act. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type AdminClient, administrator, createAdministrator } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { assertAccessible, type ConsoleTab, NARROW } from './browser.ts'
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
  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).first().click()
  const confirm = (page: Page, title: string, action = title) =>
    dialog(page, title).getByRole('button', { name: action, exact: true }).click()

  async function bob(place: string): Promise<ConsoleTab> {
    const tab = await at.browser.open({ place, viewport: NARROW })
    await tab.page.getByLabel('Username').fill('bob')
    await tab.page.getByLabel('Password').fill(bobsPassword)
    await tab.page.keyboard.press('Enter')
    await tab.page.locator('main h1').first().waitFor()
    return tab
  }

  /** The dialog of the act is followed by the one that says who else is needed. */
  async function askForApproval(page: Page, reason: string): Promise<void> {
    const asking = dialog(page, 'Another person must approve')
    await asking.getByText('Nothing is done before that', { exact: false }).waitFor()
    await assertAccessible(page, 'asking for approval')
    await asking.getByLabel('Reason for approval').fill(reason)
    await asking.getByRole('button', { name: 'Ask for approval' }).click()
    await page.getByText('Asked for approval: another person decides.').waitFor()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }

  test('a request is rejected with a reason, which its maker reads', async () => {
    await carol.send('POST', '/signing', { stopped: true })
    const ada = await at.browser.as('admin', '/operation')
    await press(ada.page, 'Resume signing')
    await confirm(ada.page, 'Resume signing')
    await askForApproval(ada.page, 'all is well')
    const [request] = (await carol.get('/approvals?waiting=true')).json
    const other = await bob(`/approvals/${request.id}`)
    await press(other.page, 'Reject')
    await dialog(other.page, 'Reject').getByLabel('Reason').fill('the audit is not done')
    await confirm(other.page, 'Reject')
    await other.page.getByText('rejected', { exact: true }).waitFor()
    await ada.page.goto(`${at.browser.url}#/approvals/${request.id}`)
    await ada.page.getByText('the audit is not done').waitFor()
  })

  test('signing resumes when another administrator approves', async () => {
    await carol.send('POST', '/signing', { stopped: true })
    const ada = await at.browser.as('admin', '/operation')
    await press(ada.page, 'Resume signing')
    await confirm(ada.page, 'Resume signing')
    await askForApproval(ada.page, 'the key is in its safe')
    assert.equal((await carol.get('/signing')).json.signing_stopped, true)
    const other = await bob('/approvals')
    await other.page.getByRole('link', { name: 'Resume signing' }).first().click()
    await other.page.getByText('the key is in its safe').waitFor()
    await assertAccessible(other.page, 'a request for approval')
    await press(other.page, 'Approve')
    await assertAccessible(other.page, 'approving')
    await confirm(other.page, 'Approve')
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
    await confirm(ada.page, 'Create a user')
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
    await confirm(other.page, 'Approve')
    await dialog(other.page, request.summary).getByRole('heading', { name: 'Second half of the password' }).waitFor()
    await press(other.page, 'I have copied it')
    await ada.page.reload()
    await press(ada.page, 'Show the secret')
    await confirm(ada.page, 'Show the secret')
    await dialog(ada.page, request.summary).getByRole('heading', { name: 'First half of the password' }).waitFor()
    await press(ada.page, 'I have copied it')
    await ada.page.getByRole('button', { name: 'Show the secret' }).waitFor({ state: 'detached' })
    assert.deepEqual([...ada.complaints, ...other.complaints], [])
  })

  test('an old sign-in is confirmed over the page, and the request goes on', async () => {
    const ada = await at.browser.as('admin', '/tokens')
    await rowsIn(at.service.database, "UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'")
    await press(ada.page, 'Create a token')
    await ada.page.getByRole('dialog').getByLabel('Name').fill('monitoring')
    await ada.page.getByRole('dialog').getByRole('button', { name: 'Create a token' }).click()
    const asking = dialog(ada.page, 'Confirm it is you')
    await asking.getByLabel('Password').fill('wrong')
    await asking.getByRole('button', { name: 'Confirm' }).click()
    await asking.getByRole('alert').waitFor()
    await assertAccessible(ada.page, 'confirming')
    await asking.getByLabel('Password').fill(at.browser.passwords.get('admin') as string)
    await asking.getByRole('button', { name: 'Confirm' }).click()
    await ada.page.getByText('Copy it now', { exact: false }).waitFor()
  })
})
