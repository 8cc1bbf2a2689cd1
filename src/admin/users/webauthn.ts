/**
 * Asks authenticators, and says what is believed of their answers (WebAuthn Level 3 §7.1, §7.2).
 *
 * User verification is required, so that one passkey is two factors. Challenges are sealed, so that strangers may ask for as
 * many as they like and the database keeps none, and bound to what they are for. An answered one is kept until it would
 * have expired.
 */

import { createHash, randomBytes } from 'node:crypto'
import type {
  AuthenticationResponseJSON,
  AuthenticatorTransport,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { CLOCKS_DIFFER_MS } from '../../shared/lib/clocks.ts'
import { parseJsonObject } from '../../shared/lib/encoding.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { type PasskeyRow, useChallenge } from './passkey-store.ts'

/** Loaded when the first passkey comes: commands have no use for it. */
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')

export interface RelyingParty {
  /** The browser must have been at this address of the console. */
  origin: string
  /** The host name of the origin, to which passkeys are bound. */
  rpId: string
}

/** COSE (RFC 9053): EdDSA, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257]
const TIMEOUT_MS = 5 * 60_000
/** The two that a browser sends unasked. For others the library may fetch CRLs from where a certificate says. */
const FORMATS = ['none', 'packed']

export const refused = (cause?: unknown) =>
  new AdminError('passkey_refused', 'the passkey was not accepted; begin again', { cause })

const described = ({ credential_id: id, transports }: PasskeyRow) => ({
  id,
  transports: transports as AuthenticatorTransport[],
})

export async function registrationOptions(
  { rpId }: RelyingParty,
  user: { id: string; username: string },
  challenge: Uint8Array<ArrayBuffer>,
  known: readonly PasskeyRow[],
) {
  const { generateRegistrationOptions } = await library()
  return generateRegistrationOptions({
    rpID: rpId,
    rpName: 'Chancery',
    userName: user.username,
    userID: new Uint8Array(Buffer.from(user.id)),
    challenge,
    timeout: TIMEOUT_MS,
    attestationType: 'none',
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    supportedAlgorithmIDs: ALGORITHMS,
    excludeCredentials: known.map(described),
  })
}

/** @param known the passkeys that will do; none for a browser that does not say who is there */
export async function requestOptions(
  { rpId }: RelyingParty,
  challenge: Uint8Array<ArrayBuffer>,
  known: readonly PasskeyRow[],
) {
  const { generateAuthenticationOptions } = await library()
  return generateAuthenticationOptions({
    rpID: rpId,
    challenge,
    timeout: TIMEOUT_MS,
    userVerification: 'required',
    allowCredentials: known.map(described),
  })
}

/**
 * The challenge that is answered. The console is never inside another page, and the library lets some of those pass.
 * @throws AdminError passkey_refused
 */
export async function challengeOf({
  response,
}: RegistrationResponseJSON | AuthenticationResponseJSON): Promise<string> {
  const { decodeClientDataJSON } = await helpers()
  return orRefused(async () => {
    const { challenge, crossOrigin, topOrigin } = decodeClientDataJSON(response.clientDataJSON)
    return crossOrigin || topOrigin !== undefined || typeof challenge !== 'string' ? undefined : challenge
  })
}

/** @throws AdminError passkey_refused */
export async function verifyRegistration(
  { origin, rpId }: RelyingParty,
  response: RegistrationResponseJSON,
  challenge: string,
) {
  const { verifyRegistrationResponse } = await library()
  const { decodeAttestationObject } = await helpers()
  return orRefused(async () => {
    const attestation = new Uint8Array(Buffer.from(response.response.attestationObject, 'base64url'))
    if (!FORMATS.includes(decodeAttestationObject(attestation).get('fmt'))) return undefined
    const { registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    })
    return registrationInfo?.credential
  })
}

/** @returns the signature counter @throws AdminError passkey_refused */
export async function verifyAssertion(
  { origin, rpId }: RelyingParty,
  response: AuthenticationResponseJSON,
  challenge: string,
  passkey: PasskeyRow,
): Promise<number> {
  const { verifyAuthenticationResponse } = await library()
  return orRefused(async () => {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
      credential: {
        id: passkey.credential_id,
        publicKey: new Uint8Array(passkey.public_key),
        counter: passkey.counter,
      },
    })
    return verified ? authenticationInfo.newCounter : undefined
  })
}

/** What is wrong makes the library throw. @throws AdminError passkey_refused */
async function orRefused<T>(read: () => Promise<T | undefined>): Promise<T> {
  const found = await read().catch((cause: unknown) => {
    throw refused(cause)
  })
  if (found === undefined) throw refused()
  return found
}

/** `sign_in` by a passkey alone, `second_factor` behind a password, `confirm` and `register` in a session. */
const PURPOSES = ['sign_in', 'second_factor', 'confirm', 'register'] as const
export type Purpose = (typeof PURPOSES)[number]

const Challenge = z.strictObject({
  purpose: z.enum(PURPOSES),
  /** Absent for `sign_in`. */
  userId: z.string().optional(),
  /** A hash of the right password for `second_factor`; the session for `confirm` and `register`. */
  bound: z.string().optional(),
  random: z.string(),
  expiresAt: z.int(),
})
export type Challenge = z.infer<typeof Challenge>

/** Longer than a person looks for a key. */
const LIFE_MS = 5 * 60_000
const NAME = 'webauthn challenge'

export const hashOf = (text: string) => createHash('sha256').update(text).digest()

export class Challenges {
  readonly #box: SecretBox

  constructor(box: SecretBox) {
    this.#box = box
  }

  make(wanted: Pick<Challenge, 'purpose' | 'userId' | 'bound'>): Uint8Array<ArrayBuffer> {
    const challenge: Challenge = { ...wanted, random: randomBytes(16).toString('hex'), expiresAt: Date.now() + LIFE_MS }
    return new Uint8Array(this.#box.seal(Buffer.from(JSON.stringify(challenge)), NAME))
  }

  /** @returns undefined for one that was not made here, is for another purpose, or has expired */
  open(text: string, purposes: readonly Purpose[]): Challenge | undefined {
    const plain = this.#box.open(Buffer.from(text, 'base64url'), NAME)
    const parsed = plain && Challenge.safeParse(parseJsonObject(plain))
    if (!parsed?.success) return undefined
    const { purpose, expiresAt } = parsed.data
    const lifeMs = expiresAt - Date.now()
    return purposes.includes(purpose) && lifeMs > 0 && lifeMs <= LIFE_MS + CLOCKS_DIFFER_MS ? parsed.data : undefined
  }
}

/** Once, on all instances. @throws AdminError passkey_refused */
export async function answerOnce(tx: CommonQueryMethods, text: string, { expiresAt }: Challenge): Promise<void> {
  // The text may be written in several ways; what it means may not.
  const bytes = Buffer.from(text, 'base64url').toString('base64url')
  if (await useChallenge(tx, hashOf(bytes), new Date(expiresAt))) return
  throw new AdminError('passkey_refused', 'this answer was used already; begin again')
}
