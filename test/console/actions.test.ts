/** Actions of an administrator in the console, clicked through, each with its confirmation and its effect. */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { addressSubject, usernameSubject } from '../../src/domain/rate-limit.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { registeredClient } from '../support/acme-client.ts'
import { type AdminClient, administrator, adminRequest, createAdministrator, TOKEN_SECRET } from '../support/admin.ts'
import { accountIdOf, boundClient } from '../support/bound.ts'
import { requireCommand } from '../support/requirements.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, type ConsoleTab, carryOut, confirm, press, signInOn } from './browser.ts'
import { consoleOf } from './suite.ts'

describe('actions in the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let admin: AdminClient
  before(async () => {
    admin = await administrator(at.service, 'grace')
  })

  const on = (place: string, title: string, work: (tab: ConsoleTab) => Promise<void>) =>
    test(title, async () => work(await at.browser.as('admin', place)))
  const row = (page: Page, text: string) => page.locator('tbody tr', { hasText: text })
  const statusOf = async (token: string) => (await adminRequest(at.service.baseUrl, 'GET', '/me', { token })).status
  const signIn = (username: string, password: string) =>
    adminRequest(at.service.baseUrl, 'POST', '/auth/login', { body: { username, password } })

  test('an account is deactivated when the end of its id is typed', async () => {
    const client = await registeredClient(at.service.directoryUrl)
    const { page } = await at.browser.as('admin', `/accounts/${accountIdOf(client)}`)
    await press(page, 'Deactivate')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('It cannot be undone', { exact: false }).waitFor()
    await becomes(() => dialog.getByRole('button', { name: 'Deactivate' }).isDisabled(), true)
    await assertAccessible(page, 'deactivating an account')
    await dialog.getByLabel(/^Type .* to confirm$/).fill(accountIdOf(client).slice(-12))
    await confirm(page, 'Deactivate')
    await page.getByText('deactivated', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Deactivate' }).waitFor({ state: 'detached' })
    assert.match((await client.newOrder(['www.test'])).text, /deactivated|unauthorized/)
  })

  test('a certificate at risk is muted with a reason, and unmuted', async () => {
    await at.sql(
      `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       SELECT gen_random_uuid(), id, '\\x7b01', '\\x07', '{idle.test}', now() - interval '80 days', now() + interval '5 days', '\\x7b'
         FROM accounts LIMIT 1`,
    )
    const { page } = await at.browser.as('admin', '/at-risk')
    await row(page, 'idle.test').getByText('No order since the window opened').waitFor()
    await row(page, 'idle.test')
      .getByText(/^Expires in [45] days$/)
      .waitFor()
    await row(page, 'idle.test').getByRole('checkbox').check()
    await press(page, 'Tell the owner …')
    await page.getByRole('dialog').getByText('0 mails about 1 certificate', { exact: false }).waitFor()
    await page.getByRole('dialog').getByText('Mail is off', { exact: false }).waitFor()
    await assertAccessible(page, 'telling the owner of a certificate at risk')
    await confirm(page, 'Cancel')
    await press(page, 'Mute …')
    await page.getByRole('dialog').getByLabel('Reason').fill('switched off for good')
    await assertAccessible(page, 'muting a certificate at risk')
    await confirm(page, 'Mute')
    await page.getByText('1 certificate muted.').waitFor()
    await row(page, 'idle.test').waitFor({ state: 'detached' })
    await page.getByLabel('Muted', { exact: true }).selectOption('Only muted')
    await row(page, 'idle.test').getByText('switched off for good').waitFor()
    await row(page, 'idle.test').getByRole('checkbox').check()
    await carryOut(page, 'Unmute …', 'Unmute')
    await page.getByText('No matches').waitFor()
    assert.equal((await admin.get('/at-risk')).json.length, 1)
  })

  on('/operation', 'signing is stopped with a reason, which the page and the overview tell', async ({ page }) => {
    await press(page, 'Stop signing')
    await page.getByRole('dialog').getByLabel('Reason').fill('the key may be stolen')
    await assertAccessible(page, 'stopping signing')
    await confirm(page, 'Stop signing')
    await page.getByText('the key may be stolen').waitFor()
    assert.equal((await admin.get('/signing')).json.signing_stopped, true)
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByRole('link', { name: /^stopped/ }).click()
    await carryOut(page, 'Resume signing')
    await page.getByRole('button', { name: 'Stop signing' }).waitFor()
    assert.equal((await admin.get('/signing')).json.signing_stopped, false)
  })

  on('/crl', 'a rebuilt CRL has a new number', async ({ page }) => {
    const numberOf = async () => (await page.locator('tbody code').allInnerTexts()).join()
    const before = await until('there is a list', async () => (await numberOf()) || undefined)
    await press(page, 'Rebuild now')
    await page.getByText('The CRLs are rebuilt.').waitFor()
    await until('the new one is shown', async () => (await numberOf()) !== before)
  })

  const notify = (subject: string, status: string, days: number) =>
    at.sql(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, message_id, created_at)
       VALUES ($1, 'challenge_failed', 'a@b.test', $2, 'b', 'b', $3, 'm', now() - make_interval(days => $4))`,
      [uuidv7(Date.now() - days * 86_400_000), subject, status, days],
    )

  test('failed notifications are queued again, old ones purged', async () => {
    await notify('did not arrive', 'failed', 1)
    await notify('long read', 'sent', 40)
    const { page } = await at.browser.as('admin', '/notifications?status=failed')
    await row(page, 'did not arrive').waitFor()
    await press(page, 'Retry all failed')
    await page.getByRole('dialog').getByText('mailed again', { exact: false }).waitFor()
    await confirm(page, 'Retry all failed')
    await page.getByText('1 notification is queued again.').waitFor()
    await page.getByText('No matches').waitFor()
    await press(page, 'Clear filters')
    await row(page, 'did not arrive').getByText('pending').waitFor()
    await press(page, 'Purge')
    const days = page.getByRole('dialog').getByLabel('Older than (days)')
    await days.fill('-1')
    await confirm(page, 'Purge')
    await page.getByRole('dialog').locator('.error').first().waitFor()
    await assertAccessible(page, 'purging notifications')
    await days.fill('30')
    await confirm(page, 'Purge')
    await page.getByText('1 notification is deleted.').waitFor()
    await row(page, 'long read').waitFor({ state: 'detached' })
  })

  test('an event that could not be delivered is delivered again, while somebody wants it', async () => {
    const bury = (consumer: string) =>
      at.sql(
        `INSERT INTO event_dead_letters (consumer, event_id, kind, subject, occurred_at, data, attempts, error)
         VALUES ($1, gen_random_uuid(), 'alarm', 'x', now(), '{"reason": "fire"}', 3, 'no')`,
        [consumer],
      )
    await at.sql(`INSERT INTO event_consumers (name, kinds) VALUES ('away', '{alarm}')`, [])
    await Promise.all([bury('away'), bury('gone')])
    const { page } = await at.browser.as('admin', '/events')
    await row(page, 'away').getByRole('button', { name: 'View' }).click()
    await page.getByRole('dialog').getByText('"reason": "fire"').waitFor()
    await assertAccessible(page, 'an event that could not be delivered')
    await confirm(page, 'Close')
    await row(page, 'away').getByRole('button', { name: 'Redeliver', exact: true }).click()
    await page.getByText('The event will be redelivered.').waitFor()
    await row(page, 'gone').getByRole('button', { name: 'Redeliver', exact: true }).click()
    await page.getByText('its consumer is not configured', { exact: false }).waitFor()
    assert.equal((await admin.get('/events/dead')).json.length, 1)
    await at.sql("DELETE FROM event_consumers WHERE name = 'away'", [])
  })

  on('/tokens', 'an API token is shown once, works, and ends when it is revoked', async ({ page }) => {
    await carryOut(page, 'Create a token', 'Create a token', { Name: 'metrics' })
    const token = (await page.getByRole('dialog', { name: 'The token metrics' }).locator('pre').textContent()) ?? ''
    await assertAccessible(page, 'a token that was made')
    await page.keyboard.press('Escape')
    await confirm(page, 'I have copied it')
    await row(page, 'metrics').getByText('active').waitFor()
    await becomes(async () => (await page.content()).includes(token), false)
    assert.equal(await statusOf(token), 200)
    await carryOut(page, 'Revoke metrics', 'Revoke')
    await row(page, 'metrics').getByText('revoked').waitFor()
    assert.equal(await statusOf(token), 401)
  })

  on('/users', 'a user is made, changes the password, gets a role, is shut out and deleted', async ({ page }) => {
    await carryOut(page, 'Create a user', 'Create a user', { Username: 'eve', 'Mail address': 'eve@example.com' })
    const password = (await page.getByRole('dialog', { name: 'The user eve' }).locator('pre').textContent()) ?? ''
    await confirm(page, 'I have copied it')
    await row(page, 'eve').waitFor()
    assert.equal((await signIn('eve', password)).status, 200)
    await becomes(() => row(page, 'ada').getByRole('button').count(), 0)
    assert.notEqual(await newPasswordOf('eve', password), password)
    assert.equal((await signIn('eve', password)).status, 401)

    const eve = async () => (await admin.get('/users')).json.find((one: { username: string }) => one.username === 'eve')
    const roleOf = async () => (await eve())?.role
    const chosenRole = async (role: string) => {
      await press(page, 'Change role of eve')
      await page.getByRole('dialog').getByLabel('Role').selectOption(role)
    }
    await chosenRole('registrar')
    await page.getByRole('dialog').getByLabel('Tags').fill('team-a, Plant-7')
    await assertAccessible(page, 'a change of role')
    await confirm(page, 'Change')
    await page.getByRole('dialog').getByText('must be 1 to 40 lower-case letters', { exact: false }).first().waitFor()
    await confirm(page, 'Change', { Tags: 'team-a, plant-7' })
    await row(page, 'eve').getByText('Registrar of plant-7, team-a').waitFor()
    await chosenRole('admin')
    await page.getByRole('dialog').getByText('May do everything.').waitFor()
    await confirm(page, 'Cancel')
    assert.equal(await roleOf(), 'registrar')
    await chosenRole('admin')
    await confirm(page, 'Change')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    // Keys and buttons only ask; nothing changes before the answer.
    await press(page, 'Disable eve')
    await page.getByRole('dialog').getByText('can no longer sign in', { exact: false }).waitFor()
    await page.keyboard.press('ArrowDown')
    const before = await eve()
    await confirm(page, 'Cancel')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    assert.deepEqual(await eve(), before)
    await press(page, 'Disable eve')
    await assertAccessible(page, 'Disable eve')
    await confirm(page, 'Disable')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    assert.equal(await page.locator('main select').count(), 0)
    await until('eve is an administrator', async () => (await roleOf()) === 'admin')
    await row(page, 'eve').getByText('disabled').waitFor()
    await carryOut(page, 'Enable eve', 'Enable')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await row(page, 'eve').getByText('enabled').waitFor()
    await press(page, 'Delete eve')
    await page.getByRole('dialog').getByLabel('Type eve to confirm').fill('eve')
    await assertAccessible(page, 'deleting a user')
    await confirm(page, 'Delete')
    await row(page, 'eve').waitFor({ state: 'detached' })
    assert.equal(await roleOf(), undefined)
  })

  on('/users', 'an administrator gives a user a new password, which is shown once', async ({ page }) => {
    const former = await createAdministrator(at.service.database, 'mallory', 'auditor')
    await page.reload()
    await press(page, 'New password for mallory')
    await page.getByRole('dialog').getByText('end at once', { exact: false }).waitFor()
    await assertAccessible(page, 'a new password for another')
    await confirm(page, 'New password')
    const dialog = page.getByRole('dialog', { name: 'The new password of mallory' })
    const password = (await dialog.locator('pre').textContent()) ?? ''
    await page.keyboard.press('Escape')
    await confirm(page, 'I have copied it')
    await dialog.waitFor({ state: 'detached' })
    assert.ok(!(await page.content()).includes(password))
    assert.equal((await signIn('mallory', former)).status, 401)
    assert.equal((await signIn('mallory', password)).status, 200)
  })

  on('/users', 'a user and an address that failed logins have locked are unlocked', async ({ page }) => {
    const password = await createAdministrator(at.service.database, 'trent', 'auditor')
    const lock = (subject: string) =>
      at.sql(
        `INSERT INTO admin_login_limits (subject, failures, window_began_at, locked_until)
         VALUES ($1, 5, now(), now() + interval '1 hour')
         ON CONFLICT (subject) DO UPDATE SET locked_until = EXCLUDED.locked_until`,
        [subject],
      )
    await lock(usernameSubject('trent'))
    assert.equal((await signIn('trent', password)).status, 429)
    await page.reload()
    await carryOut(page, 'Unlock trent', 'Unlock')
    await page.getByText('trent is unlocked.').waitFor()
    assert.equal((await signIn('trent', password)).status, 200)
    await carryOut(page, 'Unlock trent', 'Unlock')
    await page.getByText('trent was not locked', { exact: false }).waitFor()

    await lock(addressSubject('127.0.0.1'))
    assert.equal((await signIn('trent', password)).status, 429)
    await press(page, 'Unlock an address')
    const address = page.getByRole('dialog').getByLabel('IP address')
    await address.fill('nowhere')
    await confirm(page, 'Unlock')
    await page.getByRole('dialog').locator('.field .error').waitFor()
    await assertAccessible(page, 'unlocking an address')
    await address.fill('127.0.0.1')
    await confirm(page, 'Unlock')
    await page.getByText('127.0.0.1 is unlocked.').waitFor()
    assert.equal((await signIn('trent', password)).status, 200)
  })

  /** By the user, who has to sign in again. */
  async function newPasswordOf(username: string, password: string): Promise<string> {
    const { page } = await at.browser.open('/profile')
    await signInOn(page, username, password)
    await press(page, 'Generate a new password')
    await page.getByLabel('Current password').fill(`not ${password}`)
    await confirm(page, 'Generate a new password')
    await page.getByText('the current password is wrong', { exact: false }).waitFor()
    await page.getByLabel('Current password').fill(password)
    await confirm(page, 'Generate a new password')
    const dialog = page.getByRole('dialog', { name: 'Your new password' })
    const changed = (await dialog.locator('pre').textContent()) ?? ''
    await confirm(page, 'I have copied it')
    await signInOn(page, username, changed)
    await page.getByRole('heading', { name: 'Your profile', level: 1 }).waitFor()
    return changed
  }

  on('/blocked-keys', 'a key is blocked, and unblocked', async ({ page }) => {
    const key = page.getByLabel('SHA-256 of the public key')
    await key.fill('abc')
    await carryOut(page, 'Block the key')
    await page.locator('.field .error').waitFor()
    await becomes(() => key.inputValue(), 'abc')
    await key.fill('cd'.repeat(32))
    await press(page, 'Block the key')
    await page.getByRole('dialog').getByText('get no new certificates', { exact: false }).waitFor()
    await confirm(page, 'Block the key')
    await row(page, 'cdcdcd').getByRole('button', { name: 'Unblock' }).click()
    await confirm(page, 'Unblock')
    await page.getByText('No blocked keys').waitFor()
  })

  on('/eab', 'a credential is made with its limits, and takes its accounts with it', async ({ page }) => {
    await press(page, 'Create a credential')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Key identifier').fill('team-web')
    await dialog.getByLabel('Label').fill('Web servers')
    await dialog.getByLabel('Maximum accounts').fill('3')
    await dialog.getByLabel('Allowed networks').fill('127.0.0.0/8\n10.0.0.0/8')
    await confirm(page, 'Create a credential')
    const key = (await dialog.locator('pre').nth(1).textContent()) ?? ''
    await assertAccessible(page, 'a credential that was made')
    await page.keyboard.press('Escape')
    await confirm(page, 'I have copied it')
    await becomes(async () => (await page.content()).includes(key), false)
    const client = await boundClient(at.service, { id: '', kid: 'team-web', hmac_key: key })
    await page.getByRole('link', { name: 'team-web' }).click()
    await page.getByText('127.0.0.0/8, 10.0.0.0/8').waitFor()
    await press(page, 'Revoke')
    await dialog.getByText('1 account, which can no longer do anything').waitFor()
    await dialog.getByText(/\d certificates? stays? valid/).waitFor()
    await becomes(() => dialog.getByRole('button', { name: 'Revoke' }).isDisabled(), true)
    await assertAccessible(page, 'a revocation')
    await dialog.getByLabel('Type team-web to confirm').fill('team-web')
    await confirm(page, 'Revoke')
    await page.getByText('The credential and its accounts are revoked.').waitFor()
    await page.getByRole('button', { name: 'Revoke' }).waitFor({ state: 'detached' })
    assert.equal((await admin.get(`/accounts/${accountIdOf(client)}`)).json.status, 'revoked')
  })

  on('/settings', 'settings hide secrets, and say what a SIGHUP and a restart would change', async ({ page }) => {
    const file = path.join(at.service.folder, 'config.yaml')
    const configured = readFileSync(file, 'utf8')
    const main = page.locator('main')
    await main.getByText('matches the settings in force', { exact: false }).waitFor()
    assert.ok(!(await page.content()).includes(TOKEN_SECRET))
    writeFileSync(file, configured.replace('retry_after_seconds: 1', 'retry_after_seconds: 7'))
    await press(page, 'Reload')
    const change = page.getByRole('region', { name: 'differs from the settings in force' }).locator('tbody tr')
    await change.getByText('challenges.retry_after_seconds').waitFor()
    await change.getByText(/^at the next (?:SIGHUP|start)$/).waitFor()
    writeFileSync(file, `${configured}\nnothing: 1\n`)
    await press(page, 'Reload')
    await page.getByRole('alert').getByText('unknown key', { exact: false }).waitFor()
    await assertAccessible(page, 'settings with a broken file')
    writeFileSync(file, configured)
  })

  on('/identifiers', 'an identifier is added, and deleted with its consequence', async ({ page }) => {
    await page.getByLabel('Name, address or network').fill('*.web.test')
    await press(page, 'Add')
    await row(page, '*.web.test').waitFor()
    await press(page, 'Delete *.web.test')
    await page.getByRole('dialog').getByText('It is removed from 0 accounts', { exact: false }).waitFor()
    await confirm(page, 'Delete')
    await page.getByText('No identifiers yet').waitFor()
  })
})
