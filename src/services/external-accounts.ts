/** External account binding (RFC 8555 §7.3.4): who may register, and credentials from making to revocation. */

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

/** A binding that its credential approves of. */
export interface ProvenBinding {
  credentialId: string
  kid: string
  jws: ExternalAccountBinding['jws']
}

export interface ExternalAccounts {
  /**
   * Undefined when there is no binding and none is needed. A binding that is sent where none is needed is checked all
   * the same: a client that asks to be bound must not end up with an account that is not.
   *
   * @throws Problem externalAccountRequired, malformed, badSignatureAlgorithm, unauthorized; each with a detail of its own
   */
  prove(binding: unknown, request: Pick<BindingContext, 'url' | 'key'>): Promise<ProvenBinding | undefined>
  /** False when the key has an account, or the credential was taken meanwhile; then nothing was written. */
  register(account: NewAccount, binding: ProvenBinding): Promise<boolean>
  lostCredential(binding: ProvenBinding): Problem
}

/** 256 bits, the size of the MAC's own state. */
const MAC_KEY_BYTES = 32

/** @param box undefined where no secret is configured: then there are no credentials, and none is required. */
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
      // An unknown kid is checked against a decoy key, so that it takes as long as a known one.
      const { id, sealedKey } = credential ?? decoy
      const macKey = box.open(sealedKey, id)
      if (!macKey) throw new Error(`the key of binding credential ${id} was sealed under another secret`)
      const proven = verifyBindingMac(binding, macKey)
      // One message for both: it must not tell which kids exist.
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
 * Makes a credential. Its HMAC key is returned here and never again.
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
