/** Finding, reading and revoking certificates in the console. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { recordTimestamp } from '../../src/events/transparency.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { accountIdOf } from '../support/bound.ts'
import { WAIT_MS } from '../support/patience.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, becomes, carryOut, hasFocus, press, reach, saved, visit } from './browser.ts'
import { HOSTILE } from './populated.ts'
import { addMany, addRows, type Issued, issue } from './seed.ts'
import { consoleOf } from './suite.ts'

const CERTIFICATE_ID = "SELECT id FROM certificates WHERE serial_number = decode($1, 'hex')"
const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] }
/** Rows that a list keeps. */
const MOST_ROWS = 1_000
/** For that many rows, page by page, on a busy machine. */
const LOADED_MS = 3 * WAIT_MS

describe('certificates in the console', requireCommand('chromium-headless-shell'), () => {
  const at = consoleOf(() => sharedService('console'))
  let issued: Issued

  const hosts = Array.from({ length: 12 }, (_, n) => `host-${n}.example.test`)

  test('an empty service says how to begin', async () => {
    const { page } = await at.browser.as('auditor', '/certificates')
    await page.getByText('No certificates yet').waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByRole('heading', { name: 'The first certificate' }).waitFor()
    await page.getByText(at.service.directoryUrl, { exact: true }).waitFor()
  })

  test("the service's own certificate is marked as of no client, and is not the first one that the guide waits for", async () => {
    await at.sql(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       VALUES (gen_random_uuid(), '\\x77', '\\x07', '{localhost}', now(), now() + interval '9 days', '\\x00')`,
    )
    const { page } = await at.browser.as('auditor', '/certificates')
    await page.getByRole('cell', { name: 'of this service itself' }).waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByText('Waiting for the first certificate.', { exact: false }).waitFor()
    await at.sql('DELETE FROM certificates')
  })

  test(
    'a fresh service leads from a credential by a copied command of lego to its first certificate',
    requireCommand('lego'),
    async () => {
      const { page } = await at.browser.as('admin', CLIPBOARD)
      await page.getByRole('link', { name: 'Create an EAB credential', exact: false }).click()
      await page.getByText('No credentials yet').waitFor()
      await press(page, 'Create a credential')
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Key identifier').fill('first')
      await press(dialog, 'Create a credential')
      const lego = dialog.locator('details', { hasText: 'lego' })
      await lego.locator('summary').click()
      await press(lego, 'Copy')
      await page.getByText('Copied', { exact: true }).waitFor()
      const copied = String(await page.evaluate('navigator.clipboard.readText()'))
      await press(dialog, 'I have copied it')
      await page.getByRole('link', { name: 'Overview', exact: true }).click()
      await page.getByText('Waiting for the first certificate.', { exact: false }).waitFor()
      await mustRun('sh', ['-ec', inThisTest(copied)])
      await page.getByRole('status').getByRole('link', { name: 'first.shop.test' }).click()
      await page.getByRole('heading', { name: 'first.shop.test', level: 1 }).waitFor()
    },
  )

  /** Replaces what the page says has to be replaced, and the port on which challenges are asked for here. */
  const inThisTest = (command: string) =>
    [
      ['/etc/ssl/chancery-root.pem', at.service.ca.root],
      ['host.example.com', 'first.shop.test'],
      ['--http ', `--http --http.port :${at.service.http01Port} --path ${at.service.folder}/lego `],
    ].reduce((text, [shown = '', wanted = '']) => {
      assert.ok(text.includes(shown), text)
      return text.replace(shown, wanted)
    }, command)

  test('what is typed finds a name or what lies below it, a serial number, a fingerprint, an account', async () => {
    issued = await issue(at.service, ['www.shop.test', 'shop.test'])
    await addRows(at.service, issued, hosts)
    const { page } = await at.browser.as('auditor', '/certificates')
    const search = async (text: string, expected: number) => {
      await page.getByRole('searchbox', { name: 'Search' }).fill(text)
      await page.keyboard.press('Enter')
      await until(`${text} finds ${expected}`, async () => (await page.locator('tbody tr').count()) === expected)
      await page.locator('.chips').getByRole('link', { name: 'Clear filters' }).click()
      await page.locator('.chips').waitFor({ state: 'detached' })
    }
    await search('example.test', hosts.length)
    await search('host-3.example.test', 1)
    await search(issued.serial.toUpperCase().replaceAll(/(..)(?=.)/g, '$1:'), 1)
    await search(createHash('sha256').update(issued.der).digest('hex'), 1)
    await search(accountIdOf(issued.client), hosts.length + 1)
    await becomes(() => page.getByRole('link', { name: 'Revoke many …' }).count(), 0)
  })

  test('a list is of one issuer or one profile, or begins at a day', async () => {
    const longAgo = '2024-05-17'
    await addRows(at.service, issued, ['long-ago.example.test'], Date.parse(`${longAgo}T12:00Z`))
    const { page } = await at.browser.as('auditor', '/issuers')
    const shows = (expected: string, isExpected: (names: string[]) => boolean) =>
      until(expected, async () => isExpected(await page.locator('tbody th a').allInnerTexts()))
    await page.getByRole('link', { name: 'View certificates' }).click()
    await shows(
      'those of the issuer',
      (names) => names.includes('www.shop.test') && names.includes('host-1.example.test'),
    )
    await visit(page, `/certificates?issuer=${'ab'.repeat(32)}`)
    await page.getByText('No matches').waitFor()
    await visit(page, '/certificates')
    const apply = async (label: string, value: string) => {
      await page.getByLabel(label, { exact: true }).fill(value)
      await page.keyboard.press('Enter')
    }
    // A copy has no order, which alone knows its profile.
    await apply('Profile', 'default')
    await shows(
      'those of the profile',
      (names) => names.includes('www.shop.test') && !names.includes('host-1.example.test'),
    )
    await apply('Profile', 'nobodys')
    await page.getByText('No matches').waitFor()
    await visit(page, '/certificates')
    await apply('Jump to: issued until (UTC)', longAgo)
    await shows('what was issued before', ([first]) => first === 'long-ago.example.test')
    await apply('Jump to: issued until (UTC)', '2024-05-16')
    await page.getByText('No matches').waitFor()
    await press(page, 'Remove the filter Issued until')
    await shows(
      'all, the newest first',
      (names) => names.length > hosts.length && names.at(-1) === 'long-ago.example.test',
    )
  })

  test('the overview leads to certificates that end soon and are not renewed yet', async () => {
    // The first name has got a second certificate, which ends later.
    await addRows(at.service, issued, ['renewed-again.example.test', ...hosts.slice(0, 1)])
    const { page } = await at.browser.as('auditor', '/')
    await page.getByRole('link', { name: 'View certificates at risk' }).click()
    await page.getByRole('heading', { name: 'At risk', level: 1 }).waitFor()
    await visit(page, '/certificates?renewed=false&sort=not_after&status=active')
    const names = () => page.locator('tbody th a').allInnerTexts()
    await until('the later one of two, and what has no other', async () => {
      const shown = await names()
      return shown.includes('host-1.example.test') && shown.filter((name) => name === hosts[0]).length === 1
    })
    await page.getByText('Renewal: Not renewed yet').waitFor()
    await assertAccessible(page, 'certificates that are not renewed')
    await page.getByLabel('Renewal', { exact: true }).selectOption({ label: 'Renewed' })
    await press(page, 'Search')
    await until('the earlier one of two', async () => (await names()).join() === hosts[0])
  })

  test('filters and sorting are in the address; back goes back to the list as it was', async () => {
    const { page } = await at.browser.as('admin', '/certificates?status=active&sort=not_after')
    const ends = () =>
      page.evaluate(`[...document.querySelectorAll('td[data-head=Expires] time')].map((one) => one.dateTime)`)
    await page.locator('tbody tr').first().waitFor()
    const shown = (await ends()) as string[]
    assert.deepEqual(shown, [...shown].sort())
    await page.getByRole('button', { name: 'Expires' }).click()
    await until('the other way round', async () => page.url().includes('sort=-not_after'))
    await page.getByRole('link', { name: 'www.shop.test' }).click()
    await page.getByRole('heading', { level: 1, name: 'www.shop.test' }).waitFor()
    await page.goBack()
    await page.locator('th[aria-sort=descending]').waitFor()
    assert.match(page.url(), /status=active&sort=-not_after/)
    await press(page, 'Remove the filter Status')
    await until('the filter is gone', async () => !page.url().includes('status='))
  })

  test('a certificate is read like a document, with the validation behind it', async () => {
    const { page } = await at.browser.as('auditor', `/certificates/${issued.serial}`)
    for (const text of ['P-256', 'Subject Alternative Name', 'dNSName: www.shop.test', 'Extended Key Usage'])
      await page.getByText(text, { exact: false }).first().waitFor()
    await page.getByRole('heading', { name: 'Validation of www.shop.test' }).waitFor()
    await becomes(() => page.getByRole('heading', { name: 'Signed timestamps' }).count(), 0)
    assert.match(await saved(page, 'Save PEM'), /^-----BEGIN CERTIFICATE-----/)
    await becomes(() => page.getByRole('button', { name: /Revoke|renew/ }).count(), 0)
  })

  test('signed timestamps are on the page of a certificate that logs have', async () => {
    const db = await openCheckedDatabase(settingsFor(at.service.database.connection, 1))
    const [row] = await at.sql<{ id: string }>(CERTIFICATE_ID, [issued.serial])
    const sct = { logId: Buffer.alloc(32, 1), extensions: Buffer.alloc(0), signature: Buffer.from([4, 3, 0, 1, 0]) }
    for (const [logUrl, verified] of [
      [`https://log.test/${HOSTILE}`, true],
      ['https://other-log.test/2026/', false],
    ] as const) {
      const timestamp = Date.parse('2026-05-17T10:20:30.456Z')
      await recordTimestamp(db, { certificateId: row?.id ?? '', logUrl, sct: { ...sct, timestamp }, verified })
    }
    await db.end()
    const { page } = await at.browser.as('auditor', `/certificates/${issued.serial}`)
    const logs = page.getByRole('region', { name: 'Signed timestamps of transparency logs' }).locator('tbody tr')
    await logs
      .filter({ hasText: `https://log.test/${HOSTILE}` })
      .getByText('yes', { exact: true })
      .waitFor()
    const other = logs.filter({ hasText: 'https://other-log.test/2026/' })
    await other.getByText('no', { exact: true }).waitFor()
    await other.getByText('2026-05-17 10:20').waitFor()
    await assertAccessible(page, 'signed timestamps')
    assert.equal(await page.evaluate('window.hacked'), undefined)
  })

  test('revoking shows its consequence and asks for the reason', async () => {
    const { page } = await at.browser.as('admin', `/certificates/${issued.serial}`)
    await carryOut(page, 'Ask to renew now')
    await page.getByText('set by an administrator').waitFor()
    await press(page, 'Revoke …')
    const dialog = page.getByRole('dialog', { name: 'Revoke this certificate' })
    await dialog.getByText('This cannot be undone', { exact: false }).waitFor()
    await assertAccessible(page, 'revoke')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await press(page, 'Revoke …')
    await dialog.getByLabel('Reason').selectOption('4')
    await press(dialog, 'Revoke')
    await page.getByText('superseded; in the CRLs', { exact: false }).waitFor()
    await becomes(() => page.getByRole('button', { name: 'Revoke …' }).count(), 0)
  })

  test('from signing in to a revocation and out again the keyboard suffices, and shows where it is', async () => {
    await issue(at.service, ['keys.shop.test'])
    const { page } = await at.browser.open('/certificates')
    const { keyboard } = page
    const heading = (name: string) => page.getByRole('heading', { name, exact: true, level: 1 })
    // It takes the focus a moment after it is drawn.
    const opened = (name: string) => until(`${name} is opened`, () => hasFocus(heading(name)))
    await heading('Chancery').waitFor()
    await keyboard.type('ada')
    await keyboard.press('Tab')
    await keyboard.type(at.browser.passwords.get('admin') as string)
    await keyboard.press('Enter')
    await opened('Certificates')

    await reach(page, page.getByRole('searchbox', { name: 'Search' }))
    await keyboard.type('keys.shop.test')
    await keyboard.press('Enter')
    await page.getByText('Name and all below: keys.shop.test').waitFor()
    await until('one is found', async () => (await page.locator('tbody tr').count()) === 1)
    assert.equal(await hasFocus(page.getByRole('searchbox', { name: 'Search' })), true)
    await reach(page, page.getByRole('button', { name: 'Remove the filter Name and all below' }))
    await keyboard.press('Enter')
    await page.locator('.chips').waitFor({ state: 'detached' })
    await until('the heading has the focus of what is gone', () => hasFocus(heading('Certificates')))
    await page.getByRole('link', { name: 'www.shop.test' }).waitFor()

    await reach(page, page.getByRole('link', { name: 'keys.shop.test' }))
    await keyboard.press('Enter')
    await opened('keys.shop.test')
    const revoke = page.getByRole('button', { name: 'Revoke …' })
    await revoke.waitFor()
    await reach(page, revoke)
    await keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Revoke this certificate' })
    await dialog.waitFor()
    await keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await until('the button has the focus again', () => hasFocus(revoke))
    await keyboard.press('Enter')
    const reason = dialog.getByLabel('Reason')
    await reason.waitFor()
    if (!(await hasFocus(reason))) await reach(page, reason)
    // Not by typing its name: a browser forgets what was typed a second ago.
    await until('superseded is chosen', async () => {
      if ((await reason.inputValue()) === '4') return true
      await keyboard.press('ArrowDown')
      return false
    })
    await reach(page, dialog.getByRole('button', { name: 'Revoke', exact: true }))
    await keyboard.press('Enter')
    await page.getByText('superseded; in the CRLs', { exact: false }).waitFor()
    await until('the heading has the focus of what is gone', () => hasFocus(heading('keys.shop.test')))

    await reach(page, page.getByRole('link', { name: 'Certificates', exact: true }), 'Shift+Tab')
    await keyboard.press('Enter')
    await opened('Certificates')
    await reach(page, page.getByRole('button', { name: 'Sign out', exact: true }), 'Shift+Tab')
    await keyboard.press('Enter')
    await heading('Chancery').waitFor()
    await until('the username can be typed', () => hasFocus(page.getByLabel('Username')))
  })

  test('a filter of the list that a bulk revocation lacks is named, and not dropped in silence', async () => {
    const key = 'a1'.repeat(32)
    const place = `/certificates?domain_suffix=example.test&profile=default&issued_after=2020-01-02&spki_sha256=${key}`
    const { page } = await at.browser.as('admin', { place })
    await page.getByRole('link', { name: 'Revoke many …' }).click()
    await page.getByText('cannot filter by: Profile.', { exact: false }).waitFor()
    await becomes(() => page.getByLabel('Name and all below').inputValue(), 'example.test')
    await becomes(() => page.getByLabel('Issued from').inputValue(), '2020-01-02')
    await becomes(() => page.getByLabel('SHA-256 of the public key').inputValue(), key)
    await assertAccessible(page, 'what a bulk revocation lacks')
  })

  test('many are revoked by a filter: first what it hits, then the number typed, then the outcome', async () => {
    const { page } = await at.browser.as('admin', '/certificates?domain=host-7.example.test')
    await page.getByRole('link', { name: 'Revoke many …' }).click()
    await becomes(() => page.getByLabel('Exact name').inputValue(), 'host-7.example.test')
    await press(page, 'Preview')
    await page.getByText('1 certificate would be revoked', { exact: false }).waitFor()
    await press(page, 'Revoke them …')
    const dialog = page.getByRole('dialog')
    const button = dialog.getByRole('button', { name: 'Revoke them' })
    await becomes(() => button.isDisabled(), true)
    await assertAccessible(page, 'bulk revocation')
    await dialog.getByLabel('Type 1 to confirm').fill('1')
    await button.click()
    await page.getByRole('heading', { name: 'Bulk revocation', level: 1 }).waitFor()
    await page.getByText('1 of 1').waitFor()
    await page.locator('tbody tr').getByText('revoked').waitFor()
    assert.match(
      await saved(page, 'Save all results as CSV'),
      /^\ufeffserial_number,names,outcome\r\n[0-9a-f]+,host-7.example.test,revoked\r\n$/,
    )
  })

  test('many are chosen by all below a name, and by the credential of their accounts', async () => {
    const { page } = await at.browser.as('admin', '/bulk-revocations/new')
    const below = page.getByLabel('Name and all below')
    await below.fill('host-8.example.test')
    await press(page, 'Preview')
    await page.getByText('1 certificate would be revoked', { exact: false }).waitFor()
    await page.getByLabel('Key identifier of the credential').fill('of-nobody')
    await press(page, 'Preview')
    await page.getByText('No matches that are neither revoked nor expired.').waitFor()
  })

  test('a bulk revocation under way is cancelled, and its page says what became of it', async () => {
    const job = uuidv7(Date.now())
    await at.sql(
      `INSERT INTO bulk_revocations (id, filter, reason, author, status, total_matched, revoked, progressed_at)
       VALUES ($1, '{"domain": "x.test"}', 4, '{"username": "ada", "role": "admin"}', 'revoking', 5000, 1500, now() + interval '1 hour')`,
      [job],
    )
    const auditor = await at.browser.as('auditor', `/bulk-revocations/${job}`)
    await auditor.page.getByText('1,500 of 5,000').waitFor()
    await becomes(() => auditor.page.getByRole('button', { name: 'Cancel the rest' }).count(), 0)
    const { page } = await at.browser.as('admin', `/bulk-revocations/${job}`)
    await press(page, 'Cancel the rest')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('1,500 certificates are already revoked', { exact: false }).waitFor()
    await assertAccessible(page, 'cancelling a bulk revocation')
    await press(dialog, 'Cancel the rest')
    await page.getByText('Cancelled', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Cancel the rest' }).waitFor({ state: 'detached' })
    await page.evaluate(`location.hash = '#/bulk-revocations'`)
    await page.locator('tbody tr', { hasText: '1,500' }).getByText('Cancelled', { exact: true }).waitFor()
  })

  test('a long list loads on and keeps two thousand rows', async () => {
    await addMany(at.service, MOST_ROWS + 300)
    const { page } = await at.browser.as('admin', '/certificates?domain_suffix=test')
    const isLong = async () => {
      await page.evaluate('scrollTo(0, document.body.scrollHeight)')
      return (await page.getByText('left the page to keep it fast', { exact: false }).count()) > 0
    }
    await until('rows have left the page', isLong, LOADED_MS)
    await becomes(() => page.locator('tbody tr').count(), MOST_ROWS)
    await press(page, 'Back to the top')
    await until('it begins again', async () => (await page.locator('tbody tr').count()) < MOST_ROWS)
  })

  test('a certificate of 300 names shows its other facts on the first screen', async () => {
    const { serial } = await issue(at.service, ['many.folded.test'])
    await at.sql(
      "UPDATE certificates SET names = ARRAY(SELECT 'n' || n || '.folded.test' FROM generate_series(1, 300) n) WHERE serial_number = decode($1, 'hex')",
      [serial],
    )
    const { page } = await at.browser.as('auditor', `/certificates/${serial}`)
    await page.getByText('295 more names').click()
    await page.getByText('n300.folded.test', { exact: false }).waitFor()
    await page.getByText('295 more names').click()
    const box = await page.getByText('Serial number', { exact: true }).boundingBox()
    assert.ok((box?.y ?? 9_999) < 800, String(box?.y))
  })
})
