/**
 * Asks authenticators, and says what is believed of their answers (WebAuthn Level 3 §7.1, §7.2).
 *
 * User verification is required, so that one passkey is two factors.
 */

import type {
  AuthenticationResponseJSON,
  AuthenticatorTransport,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { AdminError } from '../../domain/admin-error.ts'
import type { PasskeyRow } from './passkey-store.ts'

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
