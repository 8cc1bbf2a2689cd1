/** A service with something on every page, among it what a hostile ACME client would leave behind. */

import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { startResponder } from '../support/acme-client.ts'
import { type AdminClient, administrator } from '../support/admin.ts'
import { accountIdOf, boundClient, type MadeCredential, made } from '../support/bound.ts'
import { rowsIn } from '../support/database.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Each would set `window.hacked`, if a page took it for markup or for a script. */
export const HOSTILE = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
export const HOSTILE_LINK = 'javascript:window.hacked=1'

export interface Populated {
  admin: AdminClient
  accountId: string
  orderId: string
  authorizationId: string
  credentialId: string
  profileId: string
}

export async function populate(service: TestService): Promise<Populated> {
  const admin = await administrator(service, 'root-of-tests')
  const credential = await made<MadeCredential>(admin, '/eab', { kid: `team ${HOSTILE}`, label: HOSTILE })
  const responder = await startResponder(service.http01Port)
  const client = await boundClient(service, credential)
  await client.obtain(['www.shop.test', 'shop.test'], responder)
  await responder.close()
  const order = await client.newOrder(['fails.shop.test'])
  const authorizationUrl: string = order.json.authorizations[0]
  const { json } = await client.post(authorizationUrl)
  await client.post(json.challenges.find(({ type }: { type: string }) => type === 'http-01').url, {})
  const [accountId, orderId] = [accountIdOf(client), lastPart(String(order.headers.location))]
  await until('the failure is kept', async () => (await admin.get(`/accounts/${accountId}/failures`)).json.length > 0)
  const { id: profileId } = await made(admin, '/csr-profiles', {
    ...{ name: `servers ${HOSTILE}`, description: HOSTILE, profile_data: { san_maximum: 3 } },
  })
  await made(admin, '/allowed-identifiers', { type: 'dns', value: '*.shop.test' })
  await made(admin, '/tokens', { name: `metrics ${HOSTILE}` })
  await admin.send('POST', '/blocked-keys', { spki_sha256: 'ab'.repeat(32) })
  await poison(service, accountId, orderId)
  const authorizationId = lastPart(authorizationUrl)
  return { admin, accountId, orderId, authorizationId, credentialId: credential.id, profileId }
}

const lastPart = (url: string) => url.split('/').at(-1) as string

/** What the service itself would refuse may be in a database that another server has written. */
async function poison(service: TestService, accountId: string, orderId: string): Promise<void> {
  const run = (sql: string, values: unknown[]) => rowsIn(service.database, sql, values)
  await run('UPDATE accounts SET contacts = $2 WHERE id = $1', [accountId, [`mailto:${HOSTILE}`, HOSTILE_LINK]])
  await run(`UPDATE orders SET status = 'invalid', error = $2 WHERE id = $1`, [
    orderId,
    JSON.stringify({ type: 'urn:ietf:params:acme:error:malformed', detail: HOSTILE, status: 400 }),
  ])
  await run(
    `INSERT INTO account_failures (account_id, event_id, kind, occurred_at, data)
     VALUES ($1, gen_random_uuid(), 'challenge.on_failure', now(), $2)`,
    [accountId, JSON.stringify({ error: HOSTILE, identifier_value: HOSTILE, problem: HOSTILE_LINK })],
  )
  await run(
    `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, error_detail, message_id)
     VALUES ($1, 'challenge_failed', $2, $2, $2, $2, 'failed', $2, 'm1')`,
    [uuidv7(Date.now()), HOSTILE],
  )
  await run(
    `INSERT INTO event_dead_letters (consumer, event_id, kind, subject, occurred_at, data, attempts, error)
     VALUES ('webhook', gen_random_uuid(), 'certificate.issuance', 'x', now(), $1, 3, $2)`,
    [JSON.stringify({ user_agent: HOSTILE }), HOSTILE],
  )
}
