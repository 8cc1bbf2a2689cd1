/**
 * Challenges of WebAuthn: sealed, so that strangers may ask for as many as they like and the database keeps none, and bound
 * to what they are for. An answered one is kept until it would have expired.
 */

import { createHash, randomBytes } from 'node:crypto'
import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { CLOCKS_DIFFER_MS } from '../../shared/lib/clocks.ts'
import { parseJsonObject } from '../../shared/lib/encoding.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { useChallenge } from './passkey-store.ts'

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
