/** Finding, reading and revoking certificates in the console. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { closeConnections } from '../support/acme-client.ts'
import { adminConfig } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, ConsoleBrowser, NARROW, settled, WIDE } from './browser.ts'
import { addMany, addRows, type Issued, issue } from './seed.ts'

const ATTACK = '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>'
/** Rows that a list keeps. */
const MOST_ROWS = 2_000

describe('certificates in the console', { ...requireCommand('chromium'), timeout: 600_000 }, () => {
  let service: TestService
  let browser: ConsoleBrowser
  let issued: Issued
  before(async () => {
    service = await startTestService({ config: adminConfig() })
    browser = await ConsoleBrowser.start(service)
  })
  after(async () => {
    closeConnections()
    await browser?.close()
    await service?.dispose()
  })

  const hosts = Array.from({ length: 12 }, (_, n) => `host-${n}.example.test`)

  test('an empty service says how to begin, and shows the first certificate when it comes', async () => {
    const { page, close } = await browser.as('admin', { place: '/certificates' })
    await page.getByText('No certificate has been issued yet.').waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByRole('heading', { name: 'The first certificate' }).waitFor()
    await page.getByText(service.directoryUrl, { exact: true }).waitFor()
    issued = await issue(service, ['www.shop.test', 'shop.test'])
    await page.getByRole('heading', { name: 'The first certificate' }).waitFor({ state: 'detached' })
    await addRows(service, issued, hosts)
    await close()
  })

  test('what is typed finds a name or what lies below it, a serial number, a fingerprint', async () => {
    const { page, complaints, close } = await browser.as('auditor', { place: '/certificates' })
    const search = async (text: string, expected: number) => {
      await page.getByRole('searchbox', { name: 'Search' }).fill(text)
      await page.keyboard.press('Enter')
      await until(`${text} finds ${expected}`, async () => (await page.locator('tbody tr').count()) === expected)
      await page.getByRole('link', { name: 'Clear the filters' }).first().click()
    }
    await search('example.test', hosts.length)
    await search('host-3.example.test', 1)
    await search(issued.serial.toUpperCase().replaceAll(/(..)(?=.)/g, '$1:'), 1)
    assert.equal(await page.getByRole('link', { name: 'Revoke many …' }).count(), 0)
    assert.deepEqual(complaints, [])
    await close()
  })

  test('filters and sorting are in the address; back goes back to the list as it was', async () => {
    const { page, close } = await browser.as('admin', { place: '/certificates?status=active&sort=not_after' })
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
    await page.getByRole('button', { name: 'Remove the filter Status' }).click()
    await until('the filter is gone', async () => !page.url().includes('status='))
    await close()
  })

  test('a certificate is read like a document, with the validation behind it', async () => {
    const { page, complaints, close } = await browser.as('auditor', { place: `/certificates/${issued.serial}` })
    for (const text of ['ECDSA P-256', 'Subject Alternative Name', 'dNSName: www.shop.test', 'Extended Key Usage'])
      await page.getByText(text, { exact: false }).first().waitFor()
    await page.getByRole('heading', { name: 'Validation of www.shop.test' }).waitFor()
    await assertAccessible(page, 'a certificate')
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save PEM' }).click(),
    ])
    assert.match(readFileSync((await download.path()) ?? '', 'utf8'), /^-----BEGIN CERTIFICATE-----/)
    assert.equal(await page.getByRole('button', { name: /Revoke|renew/ }).count(), 0)
    assert.deepEqual(complaints, [])
    await close()
  })

  for (const [role, colorScheme, viewport] of [
    ['admin', 'dark', WIDE],
    ['admin', 'light', NARROW],
    ['auditor', 'light', WIDE],
  ] as const)
    test(`each page as ${role}, ${colorScheme}, ${viewport.width} pixels wide, passes axe and fits`, async () => {
      const { page, complaints, close } = await browser.as(role, { colorScheme, viewport })
      const own = role === 'admin' ? ['/bulk-revocations/new'] : []
      for (const place of [
        '/',
        '/certificates',
        `/certificates/${issued.serial}`,
        '/bulk-revocations',
        '/nothing',
        ...own,
      ]) {
        await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
        await settled(page)
        await assertAccessible(page, `${place} as ${role}`)
        const tooWide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        assert.ok(Number(tooWide) <= 0, `${place} is ${tooWide} pixels too wide`)
        assert.equal(await page.getByRole('alert').count(), 0, `${place} shows a problem`)
        if (role === 'auditor') assert.equal(await page.getByRole('button', { name: /^(?:Revoke|Ask|New)/ }).count(), 0)
      }
      assert.deepEqual(complaints, [])
      await close()
    })

  test('revoking shows its consequence and asks for the reason', async () => {
    const { page, close } = await browser.as('admin', { place: `/certificates/${issued.serial}` })
    await page.getByRole('button', { name: 'Ask to renew now' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Ask to renew now' }).click()
    await page.getByText('set by an administrator').waitFor()
    await page.getByRole('button', { name: 'Revoke …' }).click()
    const dialog = page.getByRole('dialog', { name: 'Revoke this certificate' })
    await dialog.getByText('This cannot be undone', { exact: false }).waitFor()
    await assertAccessible(page, 'revoke')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Revoke …' }).click()
    await dialog.getByLabel('Reason').selectOption('4')
    await dialog.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByText('superseded; in the lists', { exact: false }).waitFor()
    assert.equal(await page.getByRole('button', { name: 'Revoke …' }).count(), 0)
    await close()
  })

  test('many are revoked by a filter: first what it hits, then the number typed, then the outcome', async () => {
    const { page, complaints, close } = await browser.as('admin', { place: '/certificates?domain=host-7.example.test' })
    await page.getByRole('link', { name: 'Revoke many …' }).click()
    assert.equal(await page.getByLabel('Exactly this name').inputValue(), 'host-7.example.test')
    await page.getByRole('button', { name: 'Show what this hits' }).click()
    await page.getByText('1 certificates would be revoked', { exact: false }).waitFor()
    await page.getByRole('button', { name: 'Revoke them …' }).click()
    const dialog = page.getByRole('dialog')
    const confirm = dialog.getByRole('button', { name: 'Revoke them' })
    assert.equal(await confirm.isDisabled(), true)
    await assertAccessible(page, 'bulk revocation')
    await dialog.getByLabel('Type 1 to confirm').fill('1')
    await confirm.click()
    await page.getByRole('heading', { name: 'Bulk revocation', level: 1 }).waitFor()
    await page.getByText('1 of 1').waitFor()
    await page.locator('tbody tr').getByText('revoked').waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save all results as CSV' }).click(),
    ])
    assert.match(
      readFileSync((await download.path()) ?? '', 'utf8'),
      /^serial_number,outcome\r\n[0-9a-f]+,revoked\r\n$/,
    )
    assert.deepEqual(complaints, [])
    await close()
  })

  test('text of strangers is text, wherever it is shown', async () => {
    await addRows(service, issued, [`${ATTACK}.test`])
    const evidence = {
      ...{
        type: 'http-01',
        attempt: 1,
        result: 'failure',
        at: new Date().toISOString(),
        ms: 1,
        problem: 'unauthorized',
      },
      ...{ detail: ATTACK, requestId: ATTACK, steps: [{ step: ATTACK, body: ATTACK }] },
    }
    await rowsIn(service.database, 'UPDATE authorizations SET evidence = $1', [JSON.stringify(evidence)])
    const { page, complaints, close } = await browser.as('admin', { place: '/certificates' })
    await page.getByText('<img src=x', { exact: false }).first().waitFor()
    await page.getByRole('link', { name: 'www.shop.test' }).first().click()
    await page.getByText('<script>window.hacked', { exact: false }).first().waitFor()
    await page.evaluate(`location.hash = '#/certificates?domain=' + encodeURIComponent(${JSON.stringify(ATTACK)})`)
    await page.getByText('<img src=x', { exact: false }).first().waitFor()
    assert.equal(await page.evaluate('window.hacked'), undefined)
    assert.deepEqual(complaints, [])
    await close()
  })

  test('a long list loads on and keeps two thousand rows', async () => {
    await addMany(service, MOST_ROWS + 300)
    const { page, complaints, close } = await browser.as('admin', { place: '/certificates?domain_suffix=test' })
    await until('rows have left the page', async () => {
      await page.evaluate('scrollTo(0, document.body.scrollHeight)')
      return (await page.getByText('left the page to keep it fast', { exact: false }).count()) > 0
    })
    assert.equal(await page.locator('tbody tr').count(), MOST_ROWS)
    await page.getByRole('button', { name: 'Back to the beginning' }).click()
    await until('it begins again', async () => (await page.locator('tbody tr').count()) < MOST_ROWS)
    assert.deepEqual(complaints, [])
    await close()
  })
})
