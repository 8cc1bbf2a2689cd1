/**
 * Screenshots of the pages for docs/console, by hand: `node compiled/test/console/screenshots.js FOLDER [word …]`.
 * The service is populated, its database a new one.
 */

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { closeConnections, registeredClient, startResponder } from '../support/acme-client.ts'
import { adminConfig, administrator } from '../support/admin.ts'
import { accountIdOf, boundClient, type MadeCredential, made } from '../support/bound.ts'
import { CA_VARIABLE, makeRunCa } from '../support/ca.ts'
import { rowsIn } from '../support/database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { ConsoleBrowser, closeChromium } from './browser.ts'
import { withPalette } from './palette.ts'
import { addRows, issue } from './seed.ts'

const SIZE = { width: 1000, height: 640 }

const NAMES = ['blog', 'mail', 'db-1', 'db-2', 'git', 'ci', 'registry', 'grafana', 'vpn', 'ldap', 'proxy', 'wiki']

const shoot = async (page: Page, name: string) =>
  writeFileSync(path.join(folder, name), withPalette(await page.screenshot()))

async function emptyService(browser: ConsoleBrowser): Promise<void> {
  const stranger = await browser.open({ viewport: SIZE, colorScheme: 'light' })
  await stranger.page.waitForTimeout(1_500)
  // The address is that of this machine, which says nothing to a reader.
  await stranger.page.getByText(service.baseUrl).evaluate((one) => {
    one.textContent = 'https://ca.shop.test/api'
  })
  await shoot(stranger.page, 'sign-in.png')
  await browser.closeTabs()
  const first = await browser.as('admin', { viewport: SIZE, colorScheme: 'light' })
  await disguise(first.page, '/home/ann/chancery/data')
  await first.page.reload()
  await first.page.waitForTimeout(1_500)
  await shoot(first.page, 'first-steps.png')
  await browser.closeTabs()
}

async function fill(service: TestService) {
  const admin = await administrator(service, 'grace')
  const credential = await made<MadeCredential>(admin, '/eab', { kid: 'team-web', label: 'Web servers' })
  await made(admin, '/eab', { kid: 'team-mail', label: 'Mail servers', max_uses: 5 })
  for (const value of ['*.shop.test', 'mail.test', '10.1.0.0/16'])
    await made(admin, '/allowed-identifiers', { type: value.includes('/') ? 'ip' : 'dns', value })
  const profile_data = { san_maximum: 3, wildcard_in_san: false, authorized_keys: { RSA: 3072, 'EC.secp256r1': 256 } }
  const profile = await made(admin, '/csr-profiles', { name: 'web servers', description: 'Few names.', profile_data })
  await admin.send('PUT', `/eab/${credential.id}/csr-profile/${profile.id}`)
  await made(admin, '/tokens', { name: 'metrics' })
  await admin.send('POST', '/blocked-keys', { spki_sha256: '5f'.repeat(32) })
  const responder = await startResponder(service.http01Port)
  const client = await boundClient(service, credential)
  await client.obtain(['www.shop.test', 'shop.test'], responder)
  await client.obtain(['cart.shop.test'], responder)
  await (await registeredClient(service.directoryUrl)).obtain(['mail.test'], responder)
  await responder.close()
  const issued = await issue(service, ['api.shop.test', 'api-2.shop.test'])
  await addRows(
    service,
    issued,
    NAMES.map((name) => `${name}.shop.test`),
  )
  await admin.send('PATCH', `/accounts/${accountIdOf(issued.client)}`, { label: 'Platform', tags: ['platform'] })
  await admin.send('PATCH', `/accounts/${accountIdOf(client)}`, { tags: ['shop'] })
  await rowsIn(
    service.database,
    `UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + interval '6 days'
      WHERE names[1] IN ('git.shop.test', 'ci.shop.test')`,
  )
  const incident = await made(admin, '/incidents', {
    filter: { domain: 'mail.test' },
    reason: 1,
    revoke: true,
    confirm_count: 1,
  })
  const { json: job } = await admin.send('POST', '/certificates/bulk-revoke', {
    filter: { domain: 'vpn.shop.test' },
    reason: 4,
  })
  await notifications(service, job.job_id)
  const order = await client.newOrder(['new.shop.test'])
  const { json } = await client.post(order.json.authorizations[0])
  await client.post(json.challenges.find(({ type }: { type: string }) => type === 'http-01').url, {})
  const account = client.kid.split('/').at(-1) as string
  await until('the failure is kept', async () => (await admin.get(`/accounts/${account}/failures`)).json.length > 0)
  return {
    serial: issued.serial,
    job: job.job_id,
    account,
    order: String(order.headers.location).split('/').at(-1),
    credential: credential.id,
    profile: profile.id,
    incident: incident.id,
  }
}

/** The rows of a service with mail and a longer history: notifications, and a bulk revocation that was cancelled. */
async function notifications(service: TestService, job: string): Promise<void> {
  const subjects = [
    ['expiration_warning', 'Certificates expire soon: blog.shop.test', 'sent', null],
    ['challenge_failed', 'A name could not be validated: new.shop.test', 'failed', '550 5.1.1 User unknown'],
    ['registration_succeeded', 'A new account', 'sent', null],
  ]
  for (const [index, [type, subject, status, error]] of subjects.entries())
    await rowsIn(
      service.database,
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, error_detail,
                                  retry_count, message_id, sent_at)
       VALUES ($1, $2, 'ops@shop.test', $3, '', '', $4, $5, $6, 'm', CASE WHEN $4 = 'sent' THEN now() END)`,
      [uuidv7(Date.now() - index * 3_600_000), type, subject, status, error, status === 'failed' ? 5 : 0],
    )
  await rowsIn(
    service.database,
    `INSERT INTO bulk_revocations (id, filter, reason, author, status, total_matched, revoked, created_at, finished_at)
     SELECT $1, '{"issued_after": "2026-11-01T00:00:00.000Z"}', 5, author, 'cancelled', 12480, 3500,
            now() - interval '2 days', now() - interval '2 days' FROM bulk_revocations WHERE id = $2`,
    [uuidv7(Date.now() - 2 * 86_400_000), job],
  )
}

/** Places of this machine say nothing to a reader. */
async function disguise(page: Page, shownFolder: string): Promise<void> {
  await page.route('**/api/**', async (route) => {
    const response = await route.fetch()
    const text = (await response.text()).replaceAll(service.folder, shownFolder)
    await route.fulfill({ response, body: text.replaceAll(service.baseUrl, 'https://ca.shop.test') })
  })
}

const [folder = '.', ...words] = process.argv.slice(2)
process.env[CA_VARIABLE] ??= await makeRunCa()
const service = await startTestService({
  config: { ...adminConfig(), crl: { enabled: true }, challenges: { http01: { max_retries: 0 } } },
})
try {
  const browser = await ConsoleBrowser.start(service)
  await emptyService(browser)
  const ids = await fill(service)
  const pages: Record<string, string> = {
    overview: '/',
    certificates: '/certificates',
    'at-risk': '/at-risk',
    failures: '/failures',
    name: '/names/new.shop.test',
    'new-incident': '/incident',
    incident: `/incident/${ids.incident}`,
    onboarding: '/onboarding',
    'hand-over': `/onboarding/${ids.credential}`,
    certificate: `/certificates/${ids.serial}`,
    'bulk-revocations': '/bulk-revocations',
    'bulk-revocation': `/bulk-revocations/${ids.job}`,
    'new-bulk-revocation': '/bulk-revocations/new?domain=db-1.shop.test',
    accounts: '/accounts',
    account: `/accounts/${ids.account}`,
    orders: '/orders',
    order: `/orders/${ids.order}`,
    eab: '/eab',
    'eab-credential': `/eab/${ids.credential}`,
    identifiers: '/identifiers',
    'csr-profiles': '/csr-profiles',
    'csr-profile': `/csr-profiles/${ids.profile}`,
    'blocked-keys': '/blocked-keys',
    operation: '/operation',
    issuers: '/issuers',
    crl: '/crl',
    notifications: '/notifications',
    events: '/events',
    settings: '/settings?source=set',
    'audit-log': '/audit-log',
    users: '/users',
    tokens: '/tokens',
    profile: '/profile',
  }
  const { page } = await browser.as('admin', { viewport: SIZE, colorScheme: 'light' })
  await disguise(page, '/etc/chancery')
  for (const [name, place] of Object.entries(pages)) {
    if (words.length > 0 && !words.some((word) => name.includes(word))) continue
    await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
    await page.waitForTimeout(1_500)
    await shoot(page, `${name}.png`)
  }
  await browser.closeTabs()
  for (const [name, place, look] of [
    ['overview-dark', '/', { viewport: SIZE, colorScheme: 'dark' }],
    ['certificates-phone', '/certificates', { viewport: { width: 390, height: 720 }, colorScheme: 'light' }],
  ] as const) {
    const tab = await browser.as('admin', { place, ...look })
    await tab.page.waitForTimeout(1_500)
    await shoot(tab.page, `${name}.png`)
    await browser.closeTabs()
  }
  await closeChromium()
} finally {
  closeConnections()
  await service.dispose()
}
