/** Requests in the form of many clients are accepted (RFC 8555 §6, §7); the table is `test/corpus/client-requests.ts`. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CLIENTS, type Client, type Place, type Target } from '../corpus/client-requests.ts'
import {
  type AccountKeyPair,
  type AcmeClient,
  base64url,
  createAcmeClient,
  csrFor,
  JOSE,
  type Jws,
  newAccountKey,
  send,
  signedJws,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'

/** The members of a protected header, one after the other. */
function headerOf(client: Client, key: AccountKeyPair, url: string, nonce?: string, kid?: string): string {
  const jwk = client.jwk?.(key) ?? key.jwk
  const values = {
    alg: ['alg', key.alg],
    key: kid ? ['kid', kid] : ['jwk', jwk],
    nonce: ['nonce', nonce],
    url: ['url', url],
  }
  const members = Object.fromEntries(client.order.map((member) => values[member]))
  return (client.headerText ?? JSON.stringify)(members)
}

const bodyOf = (client: Client, jws: Jws) => (client.bodyText ?? JSON.stringify)(jws)

function innerOf(client: Client, { key, kid }: AcmeClient, url: string): string {
  const next = newAccountKey(client.alg)
  const payload = { account: kid, oldKey: client.jwk?.(key) ?? key.jwk }
  return bodyOf(client, signedJws(next, headerOf(client, next, url), { payload }))
}

describe('requests in the form of', () => {
  const { service, responder } = acmeScene('credentials')
  let orders = 0

  /** Goes as far as the request needs. */
  async function reach(client: AcmeClient, to: Target, form: Client): Promise<Place> {
    const name = `n${orders++}.test`
    const at = (url: string | undefined, subject = ''): Place => ({ client, name, url: String(url), subject })
    if (to === 'newAccount') return at(client.directory['newAccount'])
    assert.equal((await client.newAccount({ termsOfServiceAgreed: true })).status, 201)
    if (to === 'knownAccount') return at(client.directory['newAccount'])
    if (to === 'account') return at(client.kid)
    if (to === 'newOrder') return at(client.directory['newOrder'])
    const change = String(client.directory['keyChange'])
    if (to === 'keyChange') return at(change, innerOf(form, client, change))
    if (to === 'certificate' || to === 'revokeCert') {
      const { certificateUrl, der } = await client.obtain([name], responder)
      return at(to === 'certificate' ? certificateUrl : client.directory['revokeCert'], base64url(der))
    }
    const { json, ...created } = await client.newOrder([name])
    if (to === 'authorization') return at(json.authorizations[0])
    if (to === 'challenge') {
      const [{ url, token }] = (await client.post(json.authorizations[0])).json.challenges
      responder.answer(token, `${token}.${client.key.thumbprint}`)
      return at(url)
    }
    await client.authorize({ json, ...created }, responder)
    return at(json.finalize, await csrFor([name]))
  }

  for (const form of CLIENTS)
    describe(form.name, () => {
      for (const [what, to, payload, status, check] of form.rows)
        test(`${to}: ${what}`, async () => {
          const client = await createAcmeClient(service.directoryUrl, newAccountKey(form.alg))
          const place = await reach(client, to, form)
          const kid = place.url === client.directory['newAccount'] ? undefined : client.kid
          const header = headerOf(form, client.key, place.url, await client.nonce(), kid)
          const body = bodyOf(form, signedJws(client.key, header, { payload: payload(place) }))
          const answer = await send({ url: place.url, headers: { ...JOSE, ...form.headers }, body })
          assert.equal(answer.status, status, answer.text)
          if ('Connection' in form.headers) assert.equal(answer.headers.connection, 'close')
          check?.(answer, place)
        })
    })
})
