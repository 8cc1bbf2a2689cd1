/**
 * JWS envelopes as ACME clients and hand-made scripts write them: name, who writes it, whether Boulder's reader takes it, the body,
 * and what our refusal says.
 *
 * That reader is go-jose 2.6.0 (`ParseSigned` and `Verify`) with the checks of Boulder around it (no `header`, no `signatures`, a
 * nonce, a url), asked by hand with Go 1.19.8. What it takes and ours refuses has the reason beside it.
 */

import { newAccountKey, signedJws } from '../support/acme-client.ts'

export type EnvelopeRow = readonly [name: string, from: string, boulder: boolean, body: Buffer, refusal?: string]

export const KEY = newAccountKey()
const URL = 'https://ca.test/acme/new-order'
const PAYLOAD = { identifiers: [{ type: 'dns', value: 'a.example' }] }
const HEADER = { alg: 'ES256', nonce: 'bm9uY2U', url: URL, kid: 'https://ca.test/acme/account/1' }
const { kid: _, ...COMMON } = HEADER

const signed = (header: object | string = HEADER, payload: object | undefined = PAYLOAD) =>
  signedJws(KEY, header, payload === undefined ? {} : { payload })
const USUAL = signed()
const body = (jws: object) => Buffer.from(JSON.stringify(jws))
const withHeader = (members: object) => body(signed({ ...HEADER, ...members }))
const withText = (header: string) => body(signed(header))
const withKey = (members: object) => body(signed({ ...COMMON, jwk: { ...KEY.jwk, ...members } }))
const withOctets = (members: object, encoding: BufferEncoding) =>
  body(signedJws(KEY, Buffer.from(JSON.stringify({ ...HEADER, ...members }), encoding), { payload: PAYLOAD }))
/** The bits of the last character that hold no data are not zero. */
const withBits = (base64url: string) =>
  base64url.slice(0, -1) + String.fromCharCode(base64url.charCodeAt(base64url.length - 1) + 1)
const text = JSON.stringify(HEADER)

const signedBy = (signature: string) => body({ ...USUAL, signature })
const WHOLE = JSON.stringify(USUAL)

export const ENVELOPES: readonly EnvelopeRow[] = [
  ['exact', 'most', true, body(USUAL)],
  [
    'members in another order',
    'Python',
    true,
    body({ signature: USUAL.signature, payload: USUAL.payload, protected: USUAL.protected }),
  ],
  ['white space', 'PHP, jq', true, Buffer.from(`\n${JSON.stringify(USUAL, null, '\t')}\r\n`)],
  ['an unknown member', 'old clients', true, body({ ...USUAL, resource: 'new-order' })],
  ['header: null', 'Java', true, body({ ...USUAL, header: null })],
  // RFC 8555 §6.2 forbids the member; an empty one says nothing, but Boulder refuses it, too.
  ['header: {}', 'acme 1.x of Python', false, body({ ...USUAL, header: {} }), 'the member header'],
  ['signatures: null', 'Java', true, body({ ...USUAL, signatures: null })],
  // RFC 8555 §6.2 forbids the member, and no client is known that writes it.
  ['signatures: []', 'nobody known', true, body({ ...USUAL, signatures: [] }), 'the member signatures'],
  ['header: ""', "LEClient's habit", false, body({ ...USUAL, header: '' })],
  // A reader that takes the first of both and one that takes the last would read two requests (RFC 7515 §4).
  ['a member twice', 'nobody known', false, Buffer.from(WHOLE.replace('{', '{"payload":"e30",')), 'duplicate member'],
  ['padding', 'Java, .NET', false, signedBy(`${USUAL.signature}==`), 'base64url without padding'],
  ['base64', 'shell scripts', false, signedBy(`+/${USUAL.signature.slice(2)}`), 'base64url'],
  // RFC 8555 §6.1 has every base64url checked for characters outside of the alphabet.
  ['a line feed inside base64url', 'base64 of the shell', true, signedBy(`${USUAL.signature}\n`), 'base64url'],
  // RFC 4648 §3.5 lets a reader refuse bits that are not zero. One text for one value; no encoder is known that writes them.
  ['bits behind the signature', 'nobody known', true, signedBy(withBits(USUAL.signature)), 'base64url'],
  ['an empty signature', 'scripts', false, signedBy(''), 'signature'],
  ['no signature', 'scripts', false, body({ protected: USUAL.protected, payload: USUAL.payload }), 'signature'],
  ['BOM', 'PowerShell', false, Buffer.from(`\uFEFF${WHOLE}`), 'not valid JSON'],
  ['a second text behind', 'scripts', false, Buffer.from(`${WHOLE}{}`), 'not valid JSON'],
  ['NUL behind', 'C programs', false, Buffer.from(`${WHOLE}\0`), 'not valid JSON'],
  [
    'compact form',
    'JOSE libraries',
    false,
    Buffer.from(`${USUAL.protected}.${USUAL.payload}.${USUAL.signature}`),
    'not valid JSON',
  ],
  ['an empty payload', 'POST-as-GET', true, body(signedJws(KEY, HEADER))],
  ['payload {}', 'most', true, body(signed(HEADER, {}))],
  [
    'a header in another order',
    'Go',
    true,
    withText(JSON.stringify({ url: URL, kid: HEADER.kid, nonce: HEADER.nonce, alg: 'ES256' })),
  ],
  ['a header with white space', 'Python', true, withText(JSON.stringify(HEADER, null, 2))],
  ['a header with BOM', 'PowerShell', false, withText(`\uFEFF${text}`), 'not valid JSON'],
  // RFC 7515 §5.2 has the header be UTF-8; Go puts U+FFFD in its place.
  ['a header in Latin-1', 'scripts of Windows', true, withOctets({ comment: 'ü' }, 'latin1'), 'not UTF-8'],
  ['a header in UTF-8', 'scripts', true, withOctets({ comment: 'ü' }, 'utf8')],
  ['a header in UTF-16', 'PowerShell', false, withOctets({}, 'utf16le'), 'not valid JSON'],
  ['escaped slashes', 'PHP', true, withText(text.replaceAll('/', '\\/'))],
  ['a header member twice', 'nobody known', false, withText(text.replace('{', '{"alg":"none",')), 'duplicate member'],
  ['typ', 'JOSE libraries', true, withHeader({ typ: 'JOSE+JSON' })],
  ['cty', 'JOSE libraries', true, withHeader({ cty: 'json' })],
  ['an unknown header member', 'old clients', true, withHeader({ resource: 'new-order' })],
  // RFC 7515 §4.1.11: the list must not be empty.
  ['crit: []', 'nobody known', true, withHeader({ crit: [] }), 'crit'],
  ['crit of an extension', 'nobody known', false, withHeader({ crit: ['a'], a: 1 }), 'crit'],
  ['alg in lower case', 'scripts', false, withHeader({ alg: 'es256' }), 'alg'],
  ['alg of another key', 'scripts', false, withHeader({ alg: 'RS256' }), 'alg'],
  ['no nonce', 'scripts', false, withHeader({ nonce: undefined }), 'no nonce'],
  ['a list as nonce', 'PHP', false, withHeader({ nonce: ['bm9uY2U'] }), 'nonce'],
  ['a number as nonce', 'scripts', false, withHeader({ nonce: 1 }), 'nonce'],
  ['kid: null beside jwk', 'Java', true, body(signed({ ...COMMON, kid: null, jwk: KEY.jwk }))],
  ['kid: "" beside jwk', 'LEClient', true, body(signed({ ...COMMON, kid: '', jwk: KEY.jwk }))],
  ['jwk: null beside kid', 'Java', true, withHeader({ jwk: null })],
  ['kid beside jwk', 'scripts', false, withHeader({ jwk: KEY.jwk }), 'exactly one'],
  ['a number as kid', 'scripts', false, withHeader({ kid: 1 }), 'kid'],
  ['jwk', 'most', true, withKey({})],
  ['jwk with alg, use and kid', 'JOSE libraries', true, withKey({ alg: 'ES256', use: 'sig', kid: 'a' })],
  ['jwk with key_ops and ext', 'WebCrypto', true, withKey({ key_ops: ['verify'], ext: true })],
  ['jwk with null members', 'Java', true, withKey({ d: null, n: null })],
]
