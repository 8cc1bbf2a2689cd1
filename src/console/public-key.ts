/** A private key that somebody pastes stays in the browser: only the SHA-256 of its public key is sent. */

const PRIVATE_PEM = /-----BEGIN ([A-Z ]*)PRIVATE KEY-----([^-]*)-----END/
const PRIVATE_MEMBER = /"(?:d|p|q|dp|dq|qi|k)"\s*:/
/** Base64 of a DER SEQUENCE without its BEGIN line may be a private key. */
const BARE_DER = /^M[\w+/\s-]{59,}={0,2}$/

const UNREADABLE =
  'This is a private key that the browser cannot read. It was not sent. Paste its public key: openssl pkey -in key.pem -pubout'
const NO_CRYPTO =
  'This is a private key. It was not sent, since the browser reads keys only over HTTPS. Paste its public key.'
const BARE = 'This may be a private key, and was not sent. Paste it with its BEGIN and END lines.'

export const mayBePrivate = (text: string): boolean =>
  text.includes('PRIVATE KEY') || (/^\s*[{[]/.test(text) && PRIVATE_MEMBER.test(text)) || BARE_DER.test(text.trim())

/** @returns SHA-256 of the SubjectPublicKeyInfo in hexadecimal @throws Error with a sentence for the page */
export async function publicKeyHash(text: string): Promise<string> {
  if (BARE_DER.test(text.trim())) throw new Error(BARE)
  // Browsers have it for secure origins alone.
  if (globalThis.crypto?.subtle === undefined) throw new Error(NO_CRYPTO)
  const spki = text.includes('PRIVATE KEY') ? await spkiOfPem(text) : await spkiOfJwk(text)
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', spki))
  return [...hash].map((octet) => octet.toString(16).padStart(2, '0')).join('')
}

const ALGORITHMS = [
  { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
  { name: 'ECDSA', namedCurve: 'P-256' },
  { name: 'ECDSA', namedCurve: 'P-384' },
  { name: 'ECDSA', namedCurve: 'P-521' },
  { name: 'Ed25519' },
] as const
type Algorithm = (typeof ALGORITHMS)[number]

async function spkiOfPem(text: string): Promise<ArrayBuffer> {
  const [, label = '', body = ''] = PRIVATE_PEM.exec(text) ?? []
  const forms = formsOf(label.trim(), body)
  for (const algorithm of ALGORITHMS)
    for (const form of forms) {
      const key = await crypto.subtle.importKey('pkcs8', form, algorithm, true, ['sign']).catch(() => undefined)
      if (key) return spkiOf(await crypto.subtle.exportKey('jwk', key), algorithm)
    }
  throw new Error(UNREADABLE)
}

async function spkiOfJwk(text: string): Promise<ArrayBuffer> {
  const jwk = parsed(text)
  for (const algorithm of ALGORITHMS) {
    const spki = await spkiOf(jwk, algorithm).catch(() => undefined)
    if (spki) return spki
  }
  throw new Error(UNREADABLE)
}

function parsed(text: string): JsonWebKey {
  try {
    return JSON.parse(text) as JsonWebKey
  } catch {
    throw new Error(UNREADABLE)
  }
}

/** The members of the public key alone. */
async function spkiOf({ kty, crv, x, y, n, e }: JsonWebKey, algorithm: Algorithm): Promise<ArrayBuffer> {
  const members = Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => value !== undefined)
  const key = await crypto.subtle.importKey('jwk', Object.fromEntries(members), algorithm, true, ['verify'])
  return crypto.subtle.exportKey('spki', key)
}

const octets = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (octet) => Number.parseInt(octet, 16))
const RSA = octets('300d06092a864886f70d0101010500')
const EC = octets('06072a8648ce3d0201')
const CURVES = ['06082a8648ce3d030107', '06052b81040022', '06052b81040023'].map(octets)

/** The key as PKCS #8 (RFC 5958), since WebCrypto takes nothing else. An EC key of SEC 1 gets each curve in turn. */
function formsOf(label: string, body: string): Uint8Array<ArrayBuffer>[] {
  let der: Uint8Array<ArrayBuffer>
  try {
    der = Uint8Array.from(atob(body.replaceAll(/^.*:.*$/gm, '').replaceAll(/\s/g, '')), (one) => one.charCodeAt(0))
  } catch {
    throw new Error(UNREADABLE)
  }
  if (label === '') return [der]
  if (label === 'RSA') return [pkcs8(RSA, der)]
  return label === 'EC' ? CURVES.map((curve) => pkcs8(tlv(0x30, EC, curve), der)) : []
}

const pkcs8 = (algorithm: Uint8Array, key: Uint8Array) => tlv(0x30, octets('020100'), algorithm, tlv(0x04, key))

function tlv(tag: number, ...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  // DER takes the shortest form of a length alone.
  const long = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  const head = [tag, ...(length < 0x80 ? [length] : long)]
  const whole = new Uint8Array(head.length + length)
  whole.set(head)
  let at = head.length
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}
