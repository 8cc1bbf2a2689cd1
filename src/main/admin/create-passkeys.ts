/** Passkeys, where the console is at a host name and nobody can listen. */

import { isIP } from 'node:net'
import { Challenges } from '../../admin/users/challenges.ts'
import { type PasskeyOptions, Passkeys } from '../../admin/users/passkeys.ts'
import type { Config } from '../../config/schema.ts'
import { adminSettings } from '../../settings/admin-settings.ts'
import { createSecretBox } from '../../shared/lib/secret-box.ts'

type Parts = Pick<PasskeyOptions, 'db' | 'audit' | 'signIn'> & { tokenSecret: string }

/** Browsers offer them to secure contexts alone, and bind none to an address (WebAuthn §5.1.3, §5.1.4). */
export function createPasskeys(config: Config, { tokenSecret, ...parts }: Parts): Passkeys | undefined {
  const { consoleUrl, requireSecondFactor } = adminSettings(config)
  const { origin, hostname, protocol } = new URL(consoleUrl)
  const isSecure = protocol === 'https:' || hostname === 'localhost'
  if (!isSecure || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return undefined
  const challenges = new Challenges(createSecretBox(tokenSecret, 'chancery: webauthn challenge'))
  return new Passkeys({ ...parts, challenges, origin, rpId: hostname, isRequired: requireSecondFactor })
}
