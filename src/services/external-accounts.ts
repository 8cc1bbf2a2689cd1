/** External account binding (RFC 8555 §7.3.4): checks of bindings. */

import { randomBytes } from 'node:crypto'
import { addressWithin } from '../domain/allowlist.ts'
import { encodeBase64url } from '../shared/lib/encoding.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import {
  type BindingContext,
  type ExternalAccountBinding,
  parseExternalAccountBinding,
  verifyBindingMac,
} from '../shared/protocol/external-account-binding.ts'
import type { AccountKeyPolicy } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { NewAccount } from '../store/account-store.ts'
import type { EabStore, EabVerification } from '../store/eab-store.ts'

export interface ExternalAccountPolicy {
  required: boolean
  /** A credential may be used by several accounts. */
  reusable: boolean
  accountKeys: AccountKeyPolicy
  /** A request with a proxy's own address has an unknown client, so no network contains it. */
  isTrustedProxy(address: string): boolean
}

/** A binding with a verified MAC and a usable credential. */
export interface ProvenBinding {
  credentialId: string
  kid: string
  jws: ExternalAccountBinding['jws']
}

/** `address` is the client's. */
type BindingRequest = Pick<BindingContext, 'url' | 'key'> & { address: string }

export interface ExternalAccounts {
  /**
   * Undefined without a binding when none is required. An optional binding is checked too: a client
   * that wants a bound account must not get an unbound one.
   *
   * @throws Problem externalAccountRequired, malformed, badSignatureAlgorithm, unauthorized
   */
  prove(binding: unknown, request: BindingRequest, now: Date): Promise<ProvenBinding | undefined>
  /** False, with nothing written, if the key has an account or the credential was just used. */
  register(account: NewAccount, binding: ProvenBinding): Promise<boolean>
  lostCredential(binding: ProvenBinding): Problem
}

/** 256 bits, the size of the MAC's own state. */
const MAC_KEY_BYTES = 32

/** @param box undefined without a configured secret: then there are no credentials */
export function createExternalAccounts(
  store: EabStore,
  box: SecretBox | undefined,
  policy: ExternalAccountPolicy,
): ExternalAccounts {
  const decoy = box && { id: 'decoy', sealedKey: box.seal(randomBytes(MAC_KEY_BYTES), 'decoy') }

  return {
    async prove(value, { address, url, key }, now) {
      if (value === undefined) {
        if (policy.required)
          throw new Problem(
            'externalAccountRequired',
            'a new account needs an externalAccountBinding; ask the operator for a kid and an HMAC key',
          )
        return undefined
      }
      if (!box || !decoy) return undefined
      const binding = parseExternalAccountBinding(value, { url, key, accountKeys: policy.accountKeys })
      const credential = await store.findForVerification(binding.kid)
      // An unknown kid is checked with a decoy key, so that it takes as long as a known one.
      const { id, sealedKey } = credential ?? decoy
      const macKey = box.open(sealedKey, id)
      if (!macKey) throw new Error(`the key of binding credential ${id} was sealed under another secret`)
      const proven = verifyBindingMac(binding, macKey)
      // Asked of the decoy, too. Who knows the text knows the key, so the answer tells nobody anything new.
      if (!proven && verifyBindingMac(binding, Buffer.from(encodeBase64url(macKey))))
        throw refused('the MAC was made with the text of the HMAC key; its key is what that base64url decodes to')
      // One message for both, which does not reveal which kids exist.
      if (!credential || !proven) throw refused('no credential has this kid and this HMAC key')
      requireUsable(credential, policy, address, now)
      return { credentialId: credential.id, kid: binding.kid, jws: binding.jws }
    },

    register: (account, { credentialId, jws }) =>
      store.register({ account, credentialId, binding: jws, reusable: policy.reusable }),

    lostCredential: () => refused('the credential has been used or revoked a moment ago'),
  }
}

/** @throws Problem unauthorized */
function requireUsable(credential: EabVerification, policy: ExternalAccountPolicy, address: string, now: Date) {
  const { reusable, isTrustedProxy } = policy
  const { revoked, used, usesLeft, expiresAt, allowedNetworks } = credential
  if (revoked) throw refused('the credential has been revoked')
  if (expiresAt && expiresAt <= now) throw refused('the credential has expired')
  if (usesLeft === undefined && used && !reusable) throw refused('the credential has been used by another account')
  if (usesLeft !== undefined && usesLeft <= 0)
    throw refused('as many accounts have registered with the credential as may')
  if (allowedNetworks && (isTrustedProxy(address) || addressWithin(address, allowedNetworks) === undefined))
    throw refused('the credential may not be used from this address')
}

function refused(detail: string): Problem {
  return new Problem('unauthorized', `externalAccountBinding: ${detail}`)
}
