/** Parts of the Admin API that follow from the configuration alone: its policy, ways to sign in, and mail. */

import type { AdminMail, AdminPolicy } from '../../admin/context.ts'
import { type OidcOptions, OidcSignIn } from '../../admin/users/oidc-sign-in.ts'
import { type PasskeyOptions, Passkeys } from '../../admin/users/passkeys.ts'
import { Challenges } from '../../admin/users/webauthn.ts'
import type { Config } from '../../config/schema.ts'
import { MailTemplates } from '../../events/notifications/templates.ts'
import { adminSettings, approvalPolicy, oidcSettings } from '../../settings/admin-settings.ts'
import { templatesPath } from '../../settings/event-settings.ts'
import { renewalPolicy, staleCrlAfterMs } from '../../settings/issuance-settings.ts'
import { canHavePasskeys } from '../../shared/lib/host.ts'
import { createSecretBox } from '../../shared/lib/secret-box.ts'

export function policyOf(config: Config): AdminPolicy {
  const { passwordLength, confirmAbove } = adminSettings(config)
  return {
    passwordLength,
    confirmAbove,
    staleCrlAfterMs: staleCrlAfterMs(config),
    renewal: renewalPolicy(config),
    caProfiles: Object.keys(config.ca.profiles),
    terms: config.tos,
    approvals: approvalPolicy(config),
  }
}

type Secret = { tokenSecret: string }

/** @returns undefined where no provider is configured */
export function createOidc(
  config: Config,
  { tokenSecret, ...parts }: Omit<OidcOptions, 'settings' | 'box'> & Secret,
): OidcSignIn | undefined {
  const settings = oidcSettings(config)
  return settings && new OidcSignIn({ ...parts, settings, box: createSecretBox(tokenSecret, 'chancery: oidc state') })
}

/** @returns undefined where browsers have no passkeys */
export function createPasskeys(
  config: Config,
  { tokenSecret, ...parts }: Pick<PasskeyOptions, 'db' | 'audit' | 'signIn'> & Secret,
): Passkeys | undefined {
  const { consoleUrl, requireSecondFactor } = adminSettings(config)
  if (!canHavePasskeys(consoleUrl)) return undefined
  const { origin, hostname } = new URL(consoleUrl)
  const challenges = new Challenges(createSecretBox(tokenSecret, 'chancery: webauthn challenge'))
  return new Passkeys({ ...parts, challenges, origin, rpId: hostname, isRequired: requireSecondFactor })
}

/** Mails that administrators send themselves. */
export function adminMail(config: Config): AdminMail {
  let templates: MailTemplates | undefined
  return {
    // Without notifications nothing reads the queue.
    isEnabled: config.smtp.enabled && config.notifications.enabled,
    serverUrl: config.server.external_url,
    templates() {
      // The events thread reports a broken one.
      templates ??= new MailTemplates(templatesPath(config), () => undefined)
      return templates
    },
  }
}
