/** Passkeys in the browser: what the service sends and takes as JSON, and `navigator.credentials` as bytes. */

import { AdminApiError, call, isFactorMissing, type Output } from './api.ts'
import { FormError } from './components/basics.tsx'
import { base64url } from './format.ts'
import { begin, currentSession } from './stored-session.ts'

type Options = Record<string, unknown> & { challenge: string }
interface Described {
  id: string
  [member: string]: unknown
}

/** The address where passkeys work. Undefined when they work at this one, or at none. */
export const elsewhere = (ways: Ways | undefined): string | undefined =>
  ways?.passkey_origin && ways.passkey_origin !== location.origin ? ways.passkey_origin : undefined

export const workHere = (ways: Ways | undefined): boolean =>
  'PublicKeyCredential' in globalThis && ways?.passkey_origin === location.origin

type Ways = Pick<Output<'getSignInMethods'>, 'passkey_origin'>

const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0))

const withBytes = (list: unknown) =>
  ((list ?? []) as Described[]).map((one) => ({ ...one, type: 'public-key' as const, id: bytesOf(one.id) }))

/** @throws FormError when the user or the browser declines */
function declined(): never {
  throw new FormError('passkey', 'No passkey was used: it was cancelled, took too long, or none fits this address.')
}

const asJson = <R>({ id, rawId }: PublicKeyCredential, response: R) => ({
  id,
  rawId: base64url(rawId),
  type: 'public-key' as const,
  response,
  clientExtensionResults: {},
})

/** Shows a passkey. @param options of the service @returns the credential as JSON */
export async function showPasskey(options: Options) {
  const publicKey = {
    ...options,
    challenge: bytesOf(options.challenge),
    allowCredentials: withBytes(options['allowCredentials']),
  } as PublicKeyCredentialRequestOptions
  const got = (await navigator.credentials.get({ publicKey }).catch(declined)) as PublicKeyCredential | null
  if (!got) return declined()
  const { clientDataJSON, authenticatorData, signature, userHandle } = got.response as AuthenticatorAssertionResponse
  return asJson(got, {
    clientDataJSON: base64url(clientDataJSON),
    authenticatorData: base64url(authenticatorData),
    signature: base64url(signature),
    ...(userHandle && { userHandle: base64url(userHandle) }),
  })
}

async function makePasskey(options: Options) {
  const user = options['user'] as Described
  const publicKey = {
    ...options,
    challenge: bytesOf(options.challenge),
    user: { ...user, id: bytesOf(user.id) },
    excludeCredentials: withBytes(options['excludeCredentials']),
  } as unknown as PublicKeyCredentialCreationOptions
  const made = (await navigator.credentials.create({ publicKey }).catch(declined)) as PublicKeyCredential | null
  if (!made) return declined()
  const response = made.response as AuthenticatorAttestationResponse
  return asJson(made, {
    clientDataJSON: base64url(response.clientDataJSON),
    attestationObject: base64url(response.attestationObject),
    transports: response.getTransports(),
  })
}

/** Asks for no username: the browser offers the passkeys that it has for this address. */
export async function signInByPasskey(): Promise<void> {
  await finishByPasskey(await call('getPasskeyOptions', {}))
}

/** Signs in by a passkey alone, or behind a password. */
export async function finishByPasskey(options: Options): Promise<void> {
  const credential = await showPasskey(options)
  const { token, user } = await call('signInByPasskey', { body: { credential } })
  begin(token, user)
}

/** A challenge belongs to one session. After a new sign-in, the browser asks again. */
export async function addPasskey(name: string): Promise<Output<'addPasskey'>> {
  for (;;) {
    const options = await call('getRegistrationOptions', {})
    const { token } = currentSession()
    const credential = await makePasskey(options)
    try {
      const added = await call('addPasskey', { body: { name, credential } })
      isFactorMissing.set(false)
      return added
    } catch (error) {
      const isRefused = error instanceof AdminApiError && error.body.error === 'passkey_refused'
      if (!isRefused || currentSession().token === token) throw error
    }
  }
}
