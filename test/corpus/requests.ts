/** Builds the certification requests of csrs.ts: the usual one for `a.example`, with parts written otherwise. */

import { constants, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { P256_KEY, RSA_KEY } from '../support/keys.ts'
import { bits, CN, der, dns, extension, hex, KEY_USAGE, NULL, oid, SAN, STRING, sequence, set, text } from './der.ts'

export const SHA256_RSA = oid('2a864886f70d01010b')
export const SHA256_ECDSA = oid('2a8648ce3d040302')
export const RSA_ENCRYPTION = oid('2a864886f70d010101')
export const P256 = oid('2a8648ce3d030107')
export const ED25519 = oid('2b6570')
const EC_PUBLIC_KEY = oid('2a8648ce3d0201')
const EXTENSION_REQUEST = oid('2a864886f70d01090e')
const MICROSOFT_EXTENSION_REQUEST = oid('2b06010401823702010e')

interface Signer {
  key: KeyObject
  hash: string | null
  padding?: number
  saltLength?: number
}

interface Parts {
  version?: Buffer
  subject?: Buffer
  spki?: Buffer
  /** Of the SET OF Attribute; null leaves out the field. */
  attributes?: readonly Buffer[] | null
  /** Behind the attributes. */
  more?: Buffer
  algorithm?: Buffer
  signer?: Signer
  /** Writes the signature. */
  wrap?: (signature: Buffer) => Buffer
}

export const NOTHING = Buffer.alloc(0)

export const attribute = (type: Buffer, ...values: readonly Buffer[]): Buffer => sequence(type, set(...values))
export const san = (...names: readonly Buffer[]): Buffer => extension(SAN, sequence(...names))
export const extensionRequest = (...extensions: readonly Buffer[]): Buffer =>
  attribute(EXTENSION_REQUEST, sequence(...extensions))
export const requestAttribute = (...values: readonly Buffer[]): Buffer => attribute(EXTENSION_REQUEST, ...values)
export const microsoftRequest = (...extensions: readonly Buffer[]): Buffer =>
  attribute(MICROSOFT_EXTENSION_REQUEST, sequence(...extensions))
/** Asks for the name that the order has. */
export const USUAL = extensionRequest(san(dns('a.example')))

export function csr(parts: Parts = {}): Buffer {
  const { version = hex('020100'), subject: name = sequence(), spki = P256_KEY.spki } = parts
  const { attributes: list = [USUAL], more = NOTHING, algorithm = sequence(SHA256_ECDSA), wrap = bits } = parts
  const { key, hash, padding, saltLength }: Signer = parts.signer ?? { key: P256_KEY.privateKey, hash: 'sha256' }
  const info = sequence(version, name, spki, list === null ? NOTHING : der(0xa0, ...list), more)
  const signature = sign(hash, info, { key, ...(padding && { padding }), ...(saltLength && { saltLength }) })
  return sequence(info, algorithm, wrap(Buffer.from(signature)))
}

export function rsa(parts: Parts = {}): Buffer {
  const usual = { spki: RSA_KEY.spki, algorithm: sequence(SHA256_RSA, NULL) }
  return csr({ ...usual, signer: { key: RSA_KEY.privateKey, hash: 'sha256' }, ...parts })
}

/** Signed by an algorithm that is named by `body`, the content of its OID. */
export const rsaSigned = (body: string, hash: string): Buffer =>
  rsa({ algorithm: sequence(oid(body), NULL), signer: { key: RSA_KEY.privateKey, hash } })

export const nameOf = (...rdns: readonly Buffer[]): Buffer => csr({ subject: sequence(...rdns) })
/** One attribute in each RDN. */
export const subject = (...values: readonly Buffer[]): Buffer => nameOf(...values.map((value) => set(value)))
export const value = (type: Buffer, content: Buffer): Buffer => sequence(type, content)
export const cn = (name: string, tag: number = STRING.utf8): Buffer => value(CN, text(tag, name))
export const organization = (tag: number, name: string): Buffer => value(oid('55040a'), text(tag, name))
export const bmp = (name: string): Buffer => der(0x1e, Buffer.from(name, 'utf16le').swap16())
export const universal = (name: string): Buffer =>
  der(0x1c, Buffer.from([...name].flatMap((character) => [0, 0, 0, character.charCodeAt(0)])))

/** With a common name, and these attributes. */
export const named = (...list: readonly Buffer[]): Buffer =>
  csr({ subject: sequence(set(cn('a.example'))), attributes: list })
export const attributes = (...list: readonly Buffer[]): Buffer => csr({ attributes: list })
export const extensions = (...list: readonly Buffer[]): Buffer => attributes(extensionRequest(...list))
export const besideSan = (...list: readonly Buffer[]): Buffer => extensions(san(dns('a.example')), ...list)
export const sanOf = (content: Buffer, critical?: Buffer): Buffer => extensions(extension(SAN, content, critical))
export const names = (...list: readonly Buffer[]): Buffer => extensions(san(...list))
export const keyUsage = (content: string): Buffer => extension(KEY_USAGE, hex(content))

const point = () => P256_KEY.spki.subarray(-65)
/** The point of the key with another first octet, compressed or hybrid. */
export const pointAs = (even: number, octets: number): Buffer =>
  Buffer.concat([Buffer.of(even + ((point()[64] ?? 0) & 1)), point().subarray(1, octets)])
export const ecKey = (parameters: Buffer, key: Buffer = point()): Buffer =>
  csr({ spki: sequence(sequence(EC_PUBLIC_KEY, parameters), bits(key)) })

const modulus = () => Buffer.from(RSA_KEY.publicKey.export({ format: 'jwk' }).n ?? '', 'base64url')
/** `sign` is what precedes the modulus in its INTEGER. */
export const rsaKey = (parameters: Buffer, sign = '00'): Buffer =>
  rsa({
    spki: sequence(
      sequence(RSA_ENCRYPTION, parameters),
      bits(sequence(der(0x02, hex(sign), modulus()), hex('0203010001'))),
    ),
  })

export function explicitCurve(): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256', paramEncoding: 'explicit' })
  return csr({ spki: publicKey.export({ type: 'spki', format: 'der' }), signer: { key: privateKey, hash: 'sha256' } })
}

export function ed25519(keyParameters: Buffer, signatureParameters: Buffer): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const key = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
  return csr({
    spki: sequence(sequence(ED25519, keyParameters), bits(key)),
    algorithm: sequence(ED25519, signatureParameters),
    signer: { key: privateKey, hash: null },
  })
}

/** RSASSA-PSS with SHA-256, MGF1 with SHA-256, and a salt of 32 octets (RFC 4055 §3.1). */
function pss(spki: Buffer, key: KeyObject): Buffer {
  const sha256 = sequence(oid('608648016503040201'), NULL)
  const mgf = sequence(oid('2a864886f70d010108'), sha256)
  const parameters = sequence(der(0xa0, sha256), der(0xa1, mgf), der(0xa2, hex('020120')))
  const signer = { key, hash: 'sha256', padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }
  return csr({ spki, algorithm: sequence(oid('2a864886f70d01010a'), parameters), signer })
}

export const pssSigned = (): Buffer => pss(RSA_KEY.spki, RSA_KEY.privateKey)

export function pssKey(): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync('rsa-pss', { modulusLength: 2048 })
  return pss(publicKey.export({ type: 'spki', format: 'der' }), privateKey)
}

/** What certreq of Windows writes besides the extensions. */
export function windowsAttributes(): Buffer[] {
  const client = [hex('020101'), text(STRING.utf8, 'host'), text(STRING.utf8, 'user'), text(STRING.utf8, 'certreq.exe')]
  const provider = [hex('020101'), bmp('Microsoft Software Key Storage Provider'), hex('030100')]
  return [
    attribute(oid('2b0601040182370d0203'), text(STRING.ia5, '10.0.17763.2')),
    attribute(oid('2b0601040182371514'), sequence(...client)),
    attribute(oid('2b0601040182370d0202'), sequence(...provider)),
    USUAL,
  ]
}

const contentAt = (value: Buffer) => (value[1] === 0x81 ? 3 : 4)

/** The outermost length in four octets. */
export function longForm(request: Buffer): Buffer {
  const content = request.subarray(contentAt(request))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  return Buffer.concat([hex('3084'), length, content])
}

export const indefinite = (request: Buffer): Buffer =>
  Buffer.concat([hex('3080'), request.subarray(contentAt(request)), hex('0000')])
