/** Makes the pictures of docs/console.md, by hand: `node dist/test/console/screenshots.js FOLDER`. */

import path from 'node:path'
import { closeConnections } from '../support/acme-client.ts'
import { adminConfig, administrator } from '../support/admin.ts'
import { CA_VARIABLE, makeRunCa } from '../support/ca.ts'
import { startTestService } from '../support/service.ts'
import { ConsoleBrowser, settled } from './browser.ts'
import { addRows, issue } from './seed.ts'

/** For charts, which are drawn after their figures. */
const SETTLED_MS = 700
const SIZE = { width: 1180, height: 760 }
const NAMES = ['www', 'mail', 'db-1', 'db-2', 'git', 'ci', 'registry', 'grafana', 'vpn', 'ldap', 'proxy', 'wiki']

const folder = process.argv[2] ?? 'docs/console'
process.env[CA_VARIABLE] ??= await makeRunCa()
const service = await startTestService({
  config: { ...adminConfig(), crl: { enabled: true }, acme: { eab_required: false } },
})
const browser = await ConsoleBrowser.start(service)

async function picture(name: string, place: string, options: Parameters<ConsoleBrowser['as']>[1] = {}) {
  const { page, close } = await browser.as('admin', { place, viewport: SIZE, colorScheme: 'light', ...options })
  await settled(page)
  await page.waitForTimeout(SETTLED_MS)
  await page.screenshot({ path: path.join(folder, `${name}.png`) })
  await close()
}

const signIn = await browser.open({ viewport: SIZE })
await signIn.page.screenshot({ path: path.join(folder, 'sign-in.png') })
await signIn.close()
await picture('first-steps', '/')

const issued = await issue(service, ['www.shop.test', 'shop.test'])
await addRows(
  service,
  issued,
  NAMES.map((name) => `${name}.example.test`),
)
const admin = await administrator(service, 'grace')
const { json: eab } = await admin.send('POST', '/eab', { kid: 'web-team', label: 'Web team' })
const { json: profile } = await admin.send('POST', '/csr-profiles', {
  ...{ name: 'web servers', description: 'P-256 keys, names of the shop' },
  profile_data: { authorized_key_types: { 'EC.secp256r1': 0 } },
})
await admin.send('POST', '/allowed-identifiers', { type: 'dns', value: '*.shop.test' })
await admin.send('POST', '/tokens', { name: 'monitoring', role: 'auditor' })
const { json: job } = await admin.send('POST', '/certificates/bulk-revoke', {
  ...{ filter: { domain: 'vpn.example.test' }, reason: 4 },
})

const account = issued.client.kid.split('/').at(-1)
const order = issued.orderUrl.split('/').at(-1)
const places: Record<string, string> = {
  ...{ overview: '/', certificates: '/certificates', certificate: `/certificates/${issued.serial}` },
  ...{ 'bulk-revocations': '/bulk-revocations', 'bulk-revocation': `/bulk-revocations/${job.job_id}` },
  ...{ 'new-bulk-revocation': '/bulk-revocations/new?domain=db-1.example.test', accounts: '/accounts' },
  ...{ account: `/accounts/${account}`, orders: '/orders', order: `/orders/${order}`, eab: '/eab' },
  ...{ 'eab-credential': `/eab/${eab?.id}`, identifiers: '/identifiers', 'csr-profiles': '/csr-profiles' },
  ...{ 'csr-profile': `/csr-profiles/${profile?.id}`, audit: '/audit-log', notifications: '/notifications' },
  ...{ events: '/events', operation: '/operation', crl: '/crl', settings: '/settings', users: '/users' },
  ...{ tokens: '/tokens', profile: '/profile' },
}
for (const [name, place] of Object.entries(places)) await picture(name, place)
await picture('overview-dark', '/', { colorScheme: 'dark' })
await picture('certificates-phone', '/certificates', { viewport: { width: 390, height: 760 } })

closeConnections()
await browser.close()
await service.dispose()
