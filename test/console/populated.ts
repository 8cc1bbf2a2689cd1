/** A service with something on every page, among it what a hostile ACME client would leave behind. */

import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type AcmeClient, csrFor, type Responder, send, startResponder } from '../support/acme-client.ts'
import { type AdminClient, administrator } from '../support/admin.ts'
import { accountIdOf, boundClient, change, type MadeCredential, made } from '../support/bound.ts'
import { failHttp01 } from '../support/clients/failing.ts'
import { rowsIn } from '../support/database.ts'
import { P256_KEY } from '../support/keys.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Each would set `window.hacked`, if a page took it for markup or for a script. */
export const HOSTILE = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
export const HOSTILE_LINK = 'javascript:window.hacked=1'
/** Short enough for a common name. */
export const HOSTILE_NAME = '"><img src=x onerror=window.hacked=1>'
/** The part of it that names and quotes leave as it is. */
export const HOSTILE_TAG = '<img src=x onerror=window.hacked=1'
export const HOSTILE_SERIAL = 'bad'.padEnd(32, '0')

export interface Populated {
  admin: AdminClient
  accountId: string
  orderId: string
  authorizationId: string
  credentialId: string
  profileId: string
  serial: string
  jobId: string
  incidentId: string
}

export async function populate(service: TestService): Promise<Populated> {
  const admin = await administrator(service, 'root-of-tests')
  const credential = await made<MadeCredential>(admin, '/eab', {
    kid: `team ${HOSTILE}`,
    label: HOSTILE,
    tags: ['team'],
  })
  const responder = await startResponder(service.http01Port)
  const client = await boundClient(service, credential, (request) =>
    send({ ...request, headers: { ...request.headers, 'User-Agent': HOSTILE } }),
  )
  const accountId = accountIdOf(client)
  const { id: profileId } = await made(admin, '/csr-profiles', {
    name: `servers ${HOSTILE}`,
    description: HOSTILE,
    profile_data: { san_maximum: 3, subject_regex: '[^<]*' },
  })
  await change(admin, 'PUT', `/csr-profiles/${profileId}/accounts/${accountId}`)
  const ofOrder = await requestAll(client, responder).finally(() => responder.close())
  const kinds = async () => {
    const { json } = await admin.get(`/accounts/${accountId}/failures`)
    return new Set(json.map(({ kind }: { kind: string }) => kind))
  }
  await until('each kind of failure is kept', async () => (await kinds()).size === 3)
  await made(admin, '/allowed-identifiers', { type: 'dns', value: '*.shop.test' })
  await made(admin, '/tokens', { name: `metrics ${HOSTILE}` })
  await admin.send('POST', '/blocked-keys', { spki_sha256: 'ab'.repeat(32) })
  const { id: incidentId } = await made(admin, '/incidents', {
    filter: { spki_sha256: 'cd'.repeat(32) },
    block_key: true,
    confirm_count: 0,
  })
  const { json: job } = await admin.send('POST', '/certificates/bulk-revoke', { filter: { domain: 'old.shop.test' } })
  const [certificate] = (await admin.get('/certificates?domain=www.shop.test')).json
  await poison(service, accountId, ofOrder)
  const ids = { accountId, ...ofOrder, credentialId: credential.id, profileId, jobId: job.job_id, incidentId }
  return { admin, ...ids, serial: certificate.serial_number }
}

/** Its subject is hostile, escaped as RFC 4514 wants it. */
export const hostileCsr = (name: string): Promise<string> =>
  csrFor([name], P256_KEY, `CN=${name}, O=${HOSTILE_NAME.replaceAll(/["+,;<>\\=]/g, '\\$&')}`)

const lastPart = (url: string) => url.split('/').at(-1) as string

/** Two certificates, and what fails: names, a certification request and the answer to a challenge are the client's own. */
async function requestAll(client: AcmeClient, responder: Responder) {
  await client.obtain(['old.shop.test'], responder)
  await client.obtain(['www.shop.test', 'shop.test'], responder)
  const hostile = [HOSTILE, 'dns'].map((type) => ({ type, value: HOSTILE }))
  await client.newOrder([], { identifiers: hostile })
  const ready = await client.newOrder(['www.shop.test'])
  await client.authorize(ready, responder)
  await client.post(ready.json.finalize, { csr: await hostileCsr('www.shop.test') })
  const { order: failing } = await failHttp01(client, responder, 'fails.shop.test', HOSTILE)
  const authorizationUrl: string = failing.json.authorizations[0]
  await until('it has failed', async () => (await client.post(authorizationUrl)).json.status === 'invalid')
  return { orderId: lastPart(String(failing.headers.location)), authorizationId: lastPart(authorizationUrl) }
}

/** A database that another server has written may hold text that the service itself would refuse. */
async function poison(
  service: TestService,
  accountId: string,
  { orderId, authorizationId }: Pick<Populated, 'orderId' | 'authorizationId'>,
): Promise<void> {
  const run = (sql: string, values: unknown[]) => rowsIn(service.database, sql, values)
  await run('UPDATE accounts SET contacts = $2 WHERE id = $1', [accountId, [`mailto:${HOSTILE}`, HOSTILE_LINK]])
  await run(`UPDATE orders SET status = 'invalid', error = $2 WHERE id = $1`, [
    orderId,
    JSON.stringify({ type: 'urn:ietf:params:acme:error:malformed', detail: HOSTILE, status: 400 }),
  ])
  const evidence = { detail: HOSTILE, steps: [{ step: HOSTILE, body: HOSTILE }] }
  await run(
    `UPDATE authorizations SET evidence = evidence || $2::jsonb,
            attempts = jsonb_set(attempts, '{http-01,error,detail}', to_jsonb($3::text))
      WHERE id = $1`,
    [authorizationId, JSON.stringify(evidence), HOSTILE],
  )
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
  const { aCertificate } = await import('../unit/shared/pki/support.ts')
  const der = aCertificate({ commonName: HOSTILE_NAME, dnsNames: ['a.example'] })
  await run(
    `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der, issued_at)
     SELECT $1, $2, decode($3, 'hex'), fingerprint, ARRAY[$4], now(), now() + interval '20 days', $5, now() FROM issuers LIMIT 1`,
    [uuidv7(Date.now()), accountId, HOSTILE_SERIAL, HOSTILE, der],
  )
}
