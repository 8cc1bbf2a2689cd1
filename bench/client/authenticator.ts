/**
 * An authenticator in software, for what no browser would send: its answers are right unless a test says otherwise.
 * CBOR (RFC 8949) only as far as an attestation object and a COSE key need it.
 */

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

const base64url = (bytes: Uint8Array | string) => Buffer.from(bytes).toString('base64url')

type Cbor = number | string | Uint8Array | Map<Cbor, Cbor>

function head(major: number, value: number): Buffer {
  if (value < 24) return Buffer.of((major << 5) | value)
  if (value < 256) return Buffer.of((major << 5) | 24, value)
  return Buffer.of((major << 5) | 25, value >> 8, value & 255)
}

export function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value)
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (value instanceof Map)
    return Buffer.concat([head(5, value.size), ...[...value].flatMap(([key, one]) => [cbor(key), cbor(one)])])
  return Buffer.concat([head(2, value.length), value])
}

/** A test lets the authenticator or its browser say these things in place of the right ones. */
export interface Saying {
  type?: string
  origin?: string
  crossOrigin?: boolean
  /** Origin of the page that embeds the one that asks. */
  topOrigin?: string
  challenge?: string
  rpId?: string
  /** UP 0x01, UV 0x04, AT 0x40. */
  flags?: number
  counter?: number
  /** Null as some browsers write it, undefined for none. */
  userHandle?: string | null | undefined
  id?: string
  /** Signs in place of the credential's own key. */
  key?: KeyObject
  /** Bytes that are cut off the authenticator data. */
  cut?: number
  /** COSE algorithm that the key says it is for. */
  algorithm?: number
  /** Attestation statement format (WebAuthn §8). */
  format?: string
  /** In place of the whole attestation object. */
  attestation?: Uint8Array
}

interface Options {
  challenge: string
}

export class Authenticator {
  readonly id = randomBytes(32)
  readonly #pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  readonly #origin: string
  counter = 0
  userHandle: string | undefined

  constructor(origin: string) {
    this.#origin = origin
  }

  #clientData(type: string, { challenge }: Options, says: Saying): Buffer {
    return Buffer.from(
      JSON.stringify({
        type: says.type ?? type,
        challenge: says.challenge ?? challenge,
        origin: says.origin ?? this.#origin,
        crossOrigin: says.crossOrigin ?? false,
        ...(says.topOrigin !== undefined && { topOrigin: says.topOrigin }),
      }),
    )
  }

  #authenticatorData(usualFlags: number, says: Saying): Buffer {
    const { rpId = new URL(this.#origin).hostname, flags = usualFlags, counter = this.counter } = says
    const tail = Buffer.alloc(4)
    tail.writeUInt32BE(counter)
    return Buffer.concat([createHash('sha256').update(rpId).digest(), Buffer.of(flags), tail])
  }

  /** `navigator.credentials.create()`. */
  create(options: Options & { user: { id: string } }, says: Saying = {}) {
    this.userHandle = options.user.id
    const { x = '', y = '' } = this.#pair.publicKey.export({ format: 'jwk' })
    const coseKey = new Map<Cbor, Cbor>([
      [1, 2],
      [3, says.algorithm ?? -7],
      [-1, 1],
      [-2, Buffer.from(x, 'base64url')],
      [-3, Buffer.from(y, 'base64url')],
    ])
    const credential = Buffer.concat([Buffer.alloc(16), Buffer.of(0, this.id.length), this.id, cbor(coseKey)])
    const authData = Buffer.concat([this.#authenticatorData(0x45, says), credential])
    const clientData = this.#clientData('webauthn.create', options, says)
    const attestation = new Map<Cbor, Cbor>([
      ['fmt', says.format ?? 'none'],
      ['attStmt', says.format === 'packed' ? this.#selfAttestation(authData, clientData, says) : new Map()],
      ['authData', authData.subarray(0, authData.length - (says.cut ?? 0))],
    ])
    return this.#json(says, {
      clientDataJSON: base64url(clientData),
      attestationObject: base64url(says.attestation ?? cbor(attestation)),
      transports: ['usb'],
    })
  }

  /** By the new key itself (WebAuthn §8.2): the one kind that a browser passes on unasked. */
  #selfAttestation(authData: Buffer, clientData: Buffer, says: Saying): Map<Cbor, Cbor> {
    const signed = Buffer.concat([authData, createHash('sha256').update(clientData).digest()])
    return new Map<Cbor, Cbor>([
      ['alg', -7],
      ['sig', sign('sha256', signed, says.key ?? this.#pair.privateKey)],
    ])
  }

  /** `navigator.credentials.get()`. */
  get(options: Options, says: Saying = {}) {
    this.counter++
    const clientData = this.#clientData('webauthn.get', options, says)
    const whole = this.#authenticatorData(0x05, says)
    const authenticatorData = whole.subarray(0, whole.length - (says.cut ?? 0))
    const signed = Buffer.concat([authenticatorData, createHash('sha256').update(clientData).digest()])
    const userHandle = 'userHandle' in says ? says.userHandle : this.userHandle
    return this.#json(says, {
      clientDataJSON: base64url(clientData),
      authenticatorData: base64url(authenticatorData),
      signature: base64url(sign('sha256', signed, says.key ?? this.#pair.privateKey)),
      ...(userHandle !== undefined && { userHandle }),
    })
  }

  #json(says: Saying, response: object) {
    const id = says.id ?? base64url(this.id)
    return { id, rawId: id, type: 'public-key', response, clientExtensionResults: {} }
  }
}
