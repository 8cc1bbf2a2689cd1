/** External account binding (RFC 8555 §7.3.4): checks of bindings, and creation of credentials. */

import { randomBytes } from 'node:crypto'
import { encodeBase64url } from '../shared/lib/base64url.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import {
  type BindingContext,
  type ExternalAccountBinding,
  parseExternalAccountBinding,
  verifyBindingMac,
} from '../shared/protocol/external-account-binding.ts'
import type { AccountKeyPolicy } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { NewAccount } from '../store/account-store.ts'
import type { EabCredential, EabStore, NewEabCredential } from '../store/eab-store.ts'

export interface ExternalAccountPolicy {
  required: boolean
  /** A credential may be used by several accounts. */
  reusable: boolean
  accountKeys: AccountKeyPolicy
}

/** A binding with a verified MAC and a usable credential. */
export interface ProvenBinding {
  credentialId: string
  kid: string
  jws: ExternalAccountBinding['jws']
}

export interface ExternalAccounts {
  /**
   * Undefined without a binding when none is required. An optional binding is checked too: a client
   * that wants a bound account must not get an unbound one.
   *
   * @throws Problem externalAccountRequired, malformed, badSignatureAlgorithm, unauthorized
   */
  prove(binding: unknown, request: Pick<BindingContext, 'url' | 'key'>): Promise<ProvenBinding | undefined>
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
    async prove(value, request) {
      if (value === undefined) {
        if (policy.required)
          throw new Problem(
            'externalAccountRequired',
            'a new account needs an externalAccountBinding; ask the operator for a kid and an HMAC key',
          )
        return undefined
      }
      if (!box || !decoy) return undefined
      const binding = parseExternalAccountBinding(value, { ...request, accountKeys: policy.accountKeys })
      const credential = await store.findForVerification(binding.kid)
      // An unknown kid is checked with a decoy key, so that it takes as long as a known one.
      const { id, sealedKey } = credential ?? decoy
      const macKey = box.open(sealedKey, id)
      if (!macKey) throw new Error(`the key of binding credential ${id} was sealed under another secret`)
      const proven = verifyBindingMac(binding, macKey)
      // One message for both, which does not reveal which kids exist.
      if (!credential || !proven) throw refused('no credential has this kid and this HMAC key')
      if (credential.revoked) throw refused('the credential has been revoked')
      if (credential.used && !policy.reusable) throw refused('the credential has been used by another account')
      return { credentialId: credential.id, kid: binding.kid, jws: binding.jws }
    },

    register: (account, { credentialId, jws }) =>
      store.register({ account, credentialId, binding: jws, reusable: policy.reusable }),

    lostCredential: () => refused('the credential has been used or revoked a moment ago'),
  }
}

function refused(detail: string): Problem {
  return new Problem('unauthorized', `externalAccountBinding: ${detail}`)
}

/**
 * Creates a credential. Only this call returns its HMAC key.
 * @returns undefined when the kid is taken
 */
export async function createEabCredential(
  store: EabStore,
  box: SecretBox,
  wanted: Omit<NewEabCredential, 'id' | 'sealedKey'>,
  now: Date,
): Promise<{ credential: EabCredential; hmacKey: string } | undefined> {
  const id = uuidv7(now.getTime())
  const key = randomBytes(MAC_KEY_BYTES)
  const credential = await store.create({ ...wanted, id, sealedKey: box.seal(key, id) })
  return credential && { credential, hmacKey: encodeBase64url(key) }
}
