/**
 * What clients of the field look for in an answer to decide what they do next (docs/decisions/words-clients-act-on.md):
 * each answer is provoked, and each client's own condition is asked of it.
 */

import assert from 'node:assert/strict'
import { request } from 'node:http'
import { before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  changeKey,
  createAcmeClient,
  csrFor,
  JOSE,
  newAccountKey,
  type Obtained,
  registeredClient,
  revoke,
  send,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { certIdOf } from '../support/certificate-id.ts'

const URN = 'urn:ietf:params:acme:error:'

type Condition = (answer: Answer) => boolean
const all =
  (...conditions: Condition[]): Condition =>
  (answer) =>
    conditions.every((condition) => condition(answer))
const any =
  (...conditions: Condition[]): Condition =>
  (answer) =>
    conditions.some((condition) => condition(answer))

const isType =
  (type: string): Condition =>
  ({ json }) =>
    json.type === URN + type
const isStatus =
  (...statuses: number[]): Condition =>
  ({ status }) =>
    statuses.includes(status)
/** lego and Posh-ACME read the member of the document. */
const saysStatus =
  (...statuses: number[]): Condition =>
  ({ json }) =>
    statuses.includes(json.status)
const has =
  (text: string): Condition =>
  (answer) =>
    answer.text.includes(text)
/** acmez and uacme read a problem of this media type alone. */
const isProblem: Condition = ({ headers }) => headers['content-type'] === 'application/problem+json'
const hasLocation: Condition = ({ headers }) => headers.location !== undefined
const hasNonce: Condition = ({ headers }) => /^[A-Za-z0-9_-]+$/.test(String(headers['replay-nonce']))

interface World {
  client: AcmeClient
  other: AcmeClient
  obtained: Obtained
  certId: string
  /** certID of one that an order replaces. */
  replaced: string
  revoked: Buffer
}

interface Row {
  answer: string
  provoke(world: World): Promise<Answer>
  clients: Record<string, Condition>
}

const orderAgain: Row['clients'] = {
  'acme.sh 3.1.4': any(has('alreadyReplaced'), has(`${URN}malformed`), has("'replaces'"), has('ARI')),
  'cert-manager 1.21': any(
    isType('alreadyReplaced'),
    all(isType('malformed'), ({ json }) => json.detail.toLowerCase().includes('replaces')),
  ),
  'Posh-ACME 4.32': saysStatus(404, 409),
}

const isOrder = all(isStatus(201), hasLocation, ({ json }) => ['pending', 'ready'].includes(json.status))
const isAbsentAccount = all(isStatus(400), isProblem, isType('accountDoesNotExist'))

const ROWS: readonly Row[] = [
  {
    answer: 'a nonce that was used',
    async provoke({ client }) {
      const nonce = await client.nonce()
      await client.post(client.kid, undefined, { header: { nonce } })
      return client.post(client.kid, undefined, { header: { nonce } })
    },
    clients: {
      'certbot 5.6': isType('badNonce'),
      'lego 5.3, Traefik': all(saysStatus(400), isType('badNonce')),
      'acme.sh 3.1.4': any(
        has('JWS has invalid anti-replay nonce'),
        has('JWS has an invalid anti-replay nonce'),
        has('The Replay Nonce is not recognized'),
      ),
      'cert-manager 1.21': all(isStatus(400), ({ json }) => json.type.toLowerCase().endsWith(':badnonce')),
      'acmez 3.1.6 (Caddy)': all(isProblem, isType('badNonce'), hasNonce),
      'Posh-ACME 4.32': all(hasNonce, ({ json }) => json.type.endsWith(':badNonce')),
      'dehydrated 0.7.2': all(has(`${URN}badNonce`), hasNonce),
      'uacme 1.7.6': all(isStatus(400), isProblem, isType('badNonce')),
      'simple-acme 2.4': isType('badNonce'),
    },
  },
  {
    answer: 'HEAD of new-nonce',
    provoke: ({ client }) => send({ method: 'HEAD', url: client.directory['newNonce'] as string }),
    clients: { 'certbot 5.6': all(isStatus(200), hasNonce) },
  },
  {
    answer: 'the directory',
    provoke: ({ client }) => send({ method: 'GET', url: new URL('/directory', client.kid).href }),
    clients: {
      'certbot 5.6, uacme 1.7.6, simple-acme 2.4': ({ json }) => json.meta.externalAccountRequired === false,
    },
  },
  {
    answer: 'a kid that is no account',
    async provoke({ client }) {
      const kid = `${client.kid.slice(0, -4)}0000`
      return client.post(client.directory['newOrder'] as string, { identifiers: [] }, { header: { kid } })
    },
    clients: { 'certmagic 0.25 (Caddy)': all(isProblem, isType('accountDoesNotExist')) },
  },
  {
    answer: 'onlyReturnExisting of a key without an account',
    provoke: async ({ client }) =>
      (await createAcmeClient(new URL('/directory', client.kid).href)).newAccount({ onlyReturnExisting: true }),
    clients: { 'cert-manager 1.21': isType('accountDoesNotExist'), 'uacme 1.7.6': isAbsentAccount },
  },
  {
    answer: 'new-account with the key of an account',
    provoke: ({ client }) => client.newAccount({ termsOfServiceAgreed: true }),
    clients: {
      'certbot 5.6, cert-manager 1.21, uacme 1.7.6': all(isStatus(200), hasLocation),
      'acme.sh 3.1.4': all(isStatus(200, 409), hasLocation),
    },
  },
  {
    answer: 'an algorithm that is not allowed',
    provoke: async ({ client }) =>
      (await createAcmeClient(new URL('/directory', client.kid).href, newAccountKey('EdDSA'))).newAccount(),
    clients: { 'simple-acme 2.4': isType('badSignatureAlgorithm') },
  },
  {
    answer: 'a contact that is no address',
    provoke: async ({ client }) =>
      (await createAcmeClient(new URL('/directory', client.kid).href)).newAccount({ contact: ['mailto:nobody'] }),
    clients: { 'certbot 5.6': isType('invalidContact') },
  },
  {
    answer: 'a key change to the key of another account',
    provoke: ({ client, other }) => changeKey(client, other.key),
    clients: { 'certbot 5.6': all(isStatus(409), hasLocation) },
  },
  {
    answer: 'a new order',
    provoke: ({ client }) => client.newOrder(['words.test']),
    clients: {
      'uacme 1.7.6': isOrder,
      'acme.sh 3.1.4': all(hasLocation, ({ text }) => /"finalize" *: *"[^"]*"/.test(text)),
      'Posh-ACME 4.32': ({ json }) => !Number.isNaN(Date.parse(json.expires)),
      'certbot 5.6': ({ json }) => json.authorizations.length === 1,
    },
  },
  {
    answer: 'an order with one refused name among several',
    provoke: ({ client }) => client.newOrder(['words.test', 'x.forbidden.test']),
    clients: {
      'certbot 5.6 --allow-subset-of-names': ({ json }) =>
        json.subproblems?.some(({ identifier }: Answer['json']) => identifier?.value === 'x.forbidden.test'),
    },
  },
  {
    answer: 'an order that replaces a certificate that another order has replaced',
    provoke: ({ client, replaced }) => client.newOrder(['replaced-words.test', 'b.test'], { replaces: replaced }),
    clients: {
      ...orderAgain,
      'lego 5.3': all(saysStatus(409), isType('alreadyReplaced')),
      'acmez 3.1.6 (Caddy)': all(isProblem, isType('alreadyReplaced')),
      'simple-acme 2.4': isType('alreadyReplaced'),
    },
  },
  {
    answer: "an order that replaces another account's certificate",
    provoke: ({ other, certId }) => other.newOrder(['obtained-words.test'], { replaces: certId }),
    clients: orderAgain,
  },
  {
    answer: 'an order that replaces a certificate of another server',
    provoke: ({ client, certId }) =>
      client.newOrder(['words.test'], { replaces: `AAAAAAAAAAAAAAAAAAAAAAAAAAA.${certId.split('.')[1]}` }),
    clients: orderAgain,
  },
  {
    answer: 'an order that replaces a certificate with other names',
    provoke: ({ client, certId }) => client.newOrder(['words.test'], { replaces: certId }),
    clients: orderAgain,
  },
  {
    answer: 'finalize of an order that is not ready',
    async provoke({ client }) {
      const { json } = await client.newOrder(['words.test'])
      return client.post(json.finalize, { csr: await csrFor(['words.test']) })
    },
    clients: {
      'certbot 5.6': isType('orderNotReady'),
      'acmez 3.1.6 (Caddy)': all(isProblem, isType('orderNotReady')),
      'cert-manager 1.21 asks for the order then': isStatus(403),
    },
  },
  {
    answer: 'finalize of an order that is valid',
    provoke: async ({ client, obtained }) =>
      client.post(obtained.order.json.finalize, { csr: await csrFor(['obtained-words.test']) }),
    clients: { 'cert-manager 1.21 asks for the order then': isStatus(403) },
  },
  {
    answer: 'finalize',
    provoke: async ({ obtained }) => obtained.order,
    clients: {
      'acme.sh 3.1.4': all(isStatus(200), has('"status":"valid"')),
      'cert-manager 1.21 polls the Location': all(isStatus(200), hasLocation),
      'dehydrated 0.7.2': ({ json }) => ['pending', 'processing', 'valid'].includes(json.status),
    },
  },
  {
    answer: 'an authorization that does not exist',
    provoke: ({ client, obtained }) => client.post(`${obtained.order.json.authorizations[0].slice(0, -4)}0000`),
    clients: { 'Posh-ACME 4.32': saysStatus(404) },
  },
  {
    answer: 'the challenge that is begun',
    async provoke({ client }) {
      const { json } = await client.post((await client.newOrder(['begun-words.test'])).json.authorizations[0])
      const { url } = json.challenges[0]
      const answer = await client.post(url, {})
      assert.equal(answer.json.url, url, 'certbot compares it')
      return answer
    },
    clients: {
      'certbot 5.6, lego 5.3': ({ links }) => links['up']?.length === 1,
      'lego 5.3': ({ headers }) => /^\d+$/.test(String(headers['retry-after'])),
      'acme.sh 3.1.4, uacme 1.7.6': isStatus(200),
      'acme.sh 3.1.4, dehydrated 0.7.2': ({ json }) =>
        ['pending', 'processing', 'valid', 'invalid'].includes(json.status),
    },
  },
  {
    answer: 'a deactivated authorization',
    async provoke({ client }) {
      const { json } = await client.newOrder(['gone-words.test'])
      return client.post(json.authorizations[0], { status: 'deactivated' })
    },
    clients: { 'acme.sh 3.1.4': has('"deactivated"') },
  },
  {
    answer: 'a revocation of what is revoked',
    async provoke({ client, revoked }) {
      await revoke(client, revoked)
      return revoke(client, revoked)
    },
    clients: { 'cert-manager 1.21': isType('alreadyRevoked') },
  },
  {
    answer: 'a deactivated account',
    provoke: async ({ client }) => {
      const leaving = await registeredClient(new URL('/directory', client.kid).href)
      return leaving.post(leaving.kid, { status: 'deactivated' })
    },
    clients: { 'acme.sh 3.1.4, dehydrated 0.7.2': all(isStatus(200), has('"deactivated"')) },
  },
]

describe('words on which clients act', () => {
  const { service, responder, client } = acmeScene('profiles')
  let world: World
  before(async () => {
    const obtained = await client.obtain(['obtained-words.test'], responder)
    const replaced = certIdOf((await client.obtain(['replaced-words.test'], responder)).der)
    await client.newOrder(['replaced-words.test'], { replaces: replaced })
    const other = await registeredClient(service.directoryUrl)
    const { der: revoked } = await client.obtain(['revoked-words.test'], responder)
    world = { client, other, obtained, certId: certIdOf(obtained.der), replaced, revoked }
  })

  for (const { answer, provoke, clients } of ROWS)
    test(answer, async () => {
      const found = await provoke(world)
      const misled = Object.entries(clients).filter(([, condition]) => !condition(found))
      assert.deepEqual(
        misled.map(([name]) => name),
        [],
        `${found.status} ${found.text}`,
      )
    })

  test('each Link is a line of its own, without blanks (Posh-ACME 4.32 and uacme 1.7.6 read it by a pattern)', async () => {
    const body = JSON.stringify(await client.jws(world.obtained.order.json.authorizations[0]))
    const lines = await new Promise<string[]>((resolve, reject) => {
      const outgoing = request(world.obtained.order.json.authorizations[0], { method: 'POST', headers: JOSE })
      outgoing.on('error', reject)
      outgoing.on('response', ({ rawHeaders: raw }) =>
        resolve(raw.filter((_, at) => at % 2 === 1 && raw[at - 1]?.toLowerCase() === 'link')),
      )
      outgoing.end(body)
    })
    assert.ok(lines.length > 0)
    for (const line of lines) assert.match(line, /^<[^<>, ]+>;rel="[a-z-]+"$/)
  })
})
