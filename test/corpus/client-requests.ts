/**
 * Requests as ACME clients write them: order of header members, white space, HTTP headers, and members that certbot leaves out or writes
 * otherwise. Each form is read in the client's public repository on GitHub, whose name and files come before it.
 *
 * What a JWS may look like at all is in `envelopes.ts`.
 */

import assert from 'node:assert/strict'
import type { AccountKeyPair, AcmeClient, Answer, Jws } from '../support/acme-client.ts'

/** How a client writes all of its requests. */
export interface Client {
  name: string
  alg: AccountKeyPair['alg']
  headers: Record<string, string>
  /** Members of the protected header in the client's order; `key` is jwk or kid. */
  order: readonly ('alg' | 'key' | 'nonce' | 'url')[]
  /** The account key as the client writes it, if not with the required members alone. */
  jwk?: (key: AccountKeyPair) => object
  headerText?: (members: object) => string
  bodyText?: (jws: Jws) => string
  rows: readonly Row[]
}

export type Target =
  | 'newAccount'
  | 'knownAccount'
  | 'account'
  | 'newOrder'
  | 'authorization'
  | 'challenge'
  | 'finalize'
  | 'certificate'
  | 'revokeCert'
  | 'keyChange'

export interface Place {
  client: AcmeClient
  /** The identifier that is ordered. */
  name: string
  url: string
  /** base64url of the CSR for `finalize`, of the certificate for `revokeCert`, the inner JWS for `keyChange`. */
  subject: string
}

/** What is sent, where to, the status that it must get, and what the answer must hold. */
type Row = readonly [
  what: string,
  to: Target,
  payload: (place: Place) => string,
  status: number,
  check?: (answer: Answer, place: Place) => void,
]

const NOTHING = () => ''
const EMPTY = () => '{}'
const AGREED = () => '{"termsOfServiceAgreed":true}'
const EXISTING = () => '{"onlyReturnExisting":true}'
const sameAccount = ({ headers }: Answer, { client }: Place) => assert.equal(headers.location, client.kid)
const valid = ({ json }: Answer) => assert.equal(json.status, 'valid')
const isPem = ({ headers, text }: Answer) => {
  assert.equal(headers['content-type'], 'application/pem-certificate-chain')
  assert.match(text, /^-----BEGIN CERTIFICATE-----/)
}
const isOrder = ({ json }: Answer, { name }: Place) =>
  assert.deepEqual(json.identifiers, [{ type: 'dns', value: name }])
const hasContacts =
  (...contacts: string[]) =>
  ({ json }: Answer) =>
    assert.deepEqual(json.contact ?? [], contacts)
const withReason =
  (reason?: number) =>
  ({ subject }: Place) =>
    JSON.stringify({ certificate: subject, reason })
const order =
  (more: object = {}) =>
  ({ name }: Place) =>
    JSON.stringify({ identifiers: [{ type: 'dns', value: name }], ...more })
const inner = ({ subject }: Place) => subject
const inDays = (days: number) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 19)}Z`
const withUse = ({ jwk, alg }: AccountKeyPair) => ({
  alg,
  crv: jwk['crv'],
  kty: 'EC',
  use: 'sig',
  x: jwk['x'],
  y: jwk['y'],
})

export const CLIENTS: readonly Client[] = [
  // haproxy/haproxy: src/acme.c, src/jws.c, src/http_client.c
  {
    name: 'HAProxy',
    alg: 'ES384',
    headers: { Accept: '*/*', 'User-Agent': 'HAProxy' },
    order: ['key', 'nonce', 'alg', 'url'],
    headerText: (members) => JSON.stringify(members).replace(/"(kid|nonce|alg|url|jwk)":/g, '"$1": '),
    bodyText: (jws) => `${JSON.stringify(jws, null, 4).replace('"payload": ', '"payload":   ')}\n`,
    rows: [
      [
        'a contact amid white space',
        'newAccount',
        () => '{"contact": [ "mailto:a@example.org" ],"termsOfServiceAgreed": true}',
        201,
        hasContacts('mailto:a@example.org'),
      ],
      ['the search for its account', 'knownAccount', () => '{ "onlyReturnExisting": true }', 200, sameAccount],
      [
        'an order amid white space',
        'newOrder',
        ({ name }) => `{ "identifiers": [ { "type": "dns",  "value": "${name}" } ] }`,
        201,
        isOrder,
      ],
      ['a CSR amid white space', 'finalize', ({ subject }) => `{ "csr": "${subject}" }`, 200, isOrder],
    ],
  },
  // golang/crypto: acme/rfc8555.go, acme/jws.go, acme/http.go
  {
    name: 'golang.org/x/crypto/acme',
    alg: 'ES256',
    headers: { 'User-Agent': 'golang.org/x/crypto/acme@v0.40.0', 'Accept-Encoding': 'gzip' },
    order: ['alg', 'key', 'nonce', 'url'],
    rows: [
      ['an account without a word of terms', 'newAccount', EMPTY, 201, hasContacts()],
      ['the search for its account', 'knownAccount', EXISTING, 200, sameAccount],
      ['an authorization by an empty payload', 'authorization', NOTHING, 200],
      ['reason 0, which it always writes', 'revokeCert', withReason(0), 200],
      ['a change of its key', 'keyChange', inner, 200, valid],
    ],
  },
  // cert-manager/cert-manager: pkg/issuer/acme/setup.go, third_party/forked/acme/rfc8555.go
  {
    name: 'cert-manager',
    alg: 'RS256',
    headers: { 'User-Agent': 'cert-manager-issuers/v1.18.0 (linux/amd64)', 'Accept-Encoding': 'gzip' },
    order: ['alg', 'key', 'nonce', 'url'],
    rows: [
      ['an account of an RSA key', 'newAccount', AGREED, 201],
      ['an order with the end of its certificate', 'newOrder', (place) => order({ notAfter: inDays(7) })(place), 201],
    ],
  },
  // nginx/nginx-acme: src/acme/request.rs, src/jws.rs, src/net/http.rs
  {
    name: 'nginx-acme',
    alg: 'ES512',
    headers: { Connection: 'close', 'User-Agent': 'nginx-acme/0.2.0 nginx/1.29.0' },
    order: ['alg', 'nonce', 'url', 'key'],
    rows: [
      ['an account without contacts', 'newAccount', AGREED, 201, hasContacts()],
      ['a challenge', 'challenge', EMPTY, 200],
      ['a certificate by an empty payload', 'certificate', NOTHING, 200, isPem],
    ],
  },
  // djc/instant-acme: src/types.rs, src/account.rs, src/lib.rs
  {
    name: 'instant-acme',
    alg: 'ES256',
    headers: { 'User-Agent': 'instant-acme/0.8.0' },
    order: ['alg', 'key', 'nonce', 'url'],
    jwk: withUse,
    rows: [
      [
        'no contacts as an empty list',
        'newAccount',
        () => '{"contact":[],"termsOfServiceAgreed":true}',
        201,
        hasContacts(),
      ],
      [
        'a search that denies the terms',
        'knownAccount',
        () => '{"contact":[],"termsOfServiceAgreed":false,"onlyReturnExisting":true}',
        200,
        sameAccount,
      ],
      ['a change of its key, with alg and use in the old one', 'keyChange', inner, 200, valid],
    ],
  },
  // FlorianUekermann/rustls-acme: src/acme.rs, src/jose.rs
  {
    name: 'rustls-acme',
    alg: 'ES256',
    headers: { 'User-Agent': 'rustls-acme' },
    order: ['alg', 'key', 'nonce', 'url'],
    jwk: withUse,
    rows: [
      [
        'an account, with alg and use in its key',
        'newAccount',
        () => '{"contact":["mailto:a@example.org"],"termsOfServiceAgreed":true}',
        201,
      ],
      ['an order', 'newOrder', order(), 201, isOrder],
    ],
  },
  // shred/acme4j: acme4j-client, connector/DefaultConnection.java, toolbox/JoseUtils.java, Account.java
  {
    name: 'acme4j',
    alg: 'RS256',
    headers: {
      Accept: 'application/json',
      'Accept-Charset': 'utf-8',
      'Accept-Language': 'de-DE,de;q=0.8,*;q=0.1',
      'Accept-Encoding': 'gzip',
      'User-Agent': 'acme4j/3.5.0 Java/21',
    },
    order: ['url', 'key', 'nonce', 'alg'],
    rows: [
      ['an account', 'newAccount', AGREED, 201, valid],
      ['a change of its key', 'keyChange', inner, 200, valid],
      ['a deactivation', 'account', () => '{"status":"deactivated"}', 200],
    ],
  },
  {
    name: 'acme4j, which accepts a chain alone',
    alg: 'ES256',
    headers: { Accept: 'application/pem-certificate-chain', 'Accept-Charset': 'utf-8', 'Accept-Encoding': 'gzip' },
    order: ['url', 'key', 'nonce', 'alg'],
    rows: [['a certificate', 'certificate', NOTHING, 200, isPem]],
  },
  // fszlin/certes: src/Certes/AcmeContext.cs, src/Certes/Jws/JwsSigner.cs, src/Certes/Acme/AuthorizationContext.cs
  {
    name: 'certes',
    alg: 'ES256',
    headers: { 'User-Agent': 'Certes/3.0.4 (.NET 8.0)' },
    order: ['alg', 'key', 'nonce', 'url'],
    rows: [
      ['an update of its account to no change', 'account', AGREED, 200, valid],
      ['the end of an authorization', 'authorization', () => '{"status":"deactivated"}', 200],
      ['a change of its key', 'keyChange', inner, 200, valid],
    ],
  },
  // rmbolger/Posh-ACME: Posh-ACME/Public/New-PAOrder.ps1, Set-PAAccount.ps1, Revoke-PACertificate.ps1, Private/New-Jws.ps1
  {
    name: 'Posh-ACME',
    alg: 'ES384',
    headers: { 'Accept-Language': 'en-us,en;q=0.5', 'User-Agent': 'Posh-ACME/4.32.0 PowerShell/7.5.0' },
    order: ['nonce', 'url', 'alg', 'key'],
    bodyText: ({ payload, protected: header, signature }) => JSON.stringify({ payload, protected: header, signature }),
    rows: [
      ['the removal of contacts by an empty list', 'account', () => '{"contact":[]}', 200, hasContacts()],
      [
        'an order from now on',
        'newOrder',
        (place) => order({ notBefore: inDays(0), notAfter: inDays(7) })(place),
        201,
        isOrder,
      ],
      ['a revocation without a reason', 'revokeCert', withReason(), 200],
    ],
  },
  // PKISharp/ACMESharpCore: src/ACMESharp/Protocol/AcmeProtocolClient.cs, src/ACMESharp/Crypto/JOSE/JwsHelper.cs
  {
    name: 'ACMESharp (win-acme)',
    alg: 'RS256',
    headers: { 'Accept-Language': 'en-us', 'User-Agent': 'ACMESharp/1.0 (ACME 2.0)' },
    order: ['alg', 'url', 'nonce', 'key'],
    bodyText: (jws) => JSON.stringify(jws, null, 2).replaceAll('\n', '\r\n'),
    rows: [
      ['no contacts as an empty list', 'newAccount', () => '{"contact":[],"termsOfServiceAgreed":true}', 201],
      ['a change of its key, the inner JWS in several lines', 'keyChange', inner, 200, valid],
      ['reason 0, which it always writes', 'revokeCert', withReason(0), 200],
    ],
  },
  // proxmox/pve-common and its fork pimox/proxmox-acme: src/PVE/ACME.pm; libwww-perl: Net::HTTP
  {
    name: 'Proxmox',
    alg: 'RS256',
    headers: { TE: 'deflate,gzip;q=0.3', Connection: 'TE, close', 'User-Agent': 'pve-acme/0.1' },
    order: ['nonce', 'key', 'url', 'alg'],
    jwk: ({ jwk }) => ({ use: 'sig', ...jwk }),
    bodyText: ({ payload, protected: header, signature }) => JSON.stringify({ signature, payload, protected: header }),
    rows: [
      [
        'an account, with use in its key',
        'newAccount',
        () => '{"termsOfServiceAgreed":true,"contact":["mailto:a@example.org"]}',
        201,
        hasContacts('mailto:a@example.org'),
      ],
      ['its account by an update of nothing', 'account', EMPTY, 200, valid],
      ['an order', 'newOrder', order(), 201, isOrder],
      ['a challenge', 'challenge', EMPTY, 200],
      ['the end of an authorization', 'authorization', () => '{"status":"deactivated"}', 200],
      ['reason 0, which it always writes', 'revokeCert', withReason(0), 200],
    ],
  },
  // fbett/le-acme2-php: src/LE_ACME2/Utilities/RequestSigner.php, Request/Order/Create.php, Connector/Connector.php
  {
    name: 'le_acme2',
    alg: 'RS256',
    headers: { Accept: 'application/json' },
    order: ['alg', 'key', 'nonce', 'url'],
    headerText: (members) => JSON.stringify(members).replaceAll('/', '\\/'),
    rows: [
      ['an order with empty dates', 'newOrder', order({ notBefore: '', notAfter: '' }), 201, isOrder],
      ['a challenge', 'challenge', EMPTY, 200],
      ['a certificate, of which it accepts JSON', 'certificate', NOTHING, 200, isPem],
    ],
  },
]
