/**
 * Features and keys that this version accepts but does not implement.
 *
 * The key tree is complete, so the configuration of a later version can be read. Enabling an absent
 * feature is an error, and so is any setting of it while enabled. A new feature removes its row;
 * `test/unit/config/effect.test.ts` finds keys that belong here.
 */

import { formatPath, type Path } from '../shared/config-file/notice.ts'
import { LEAVES } from './reference.ts'
import type { Config } from './schema.ts'

export interface AbsentFeature {
  /** The key that switches the feature on. */
  path: string
  feature: string
  /** Keys that use the feature; empty when it is off. */
  uses(config: Config): readonly string[]
  /** Keys that only the feature reads; a section means all its keys. */
  keys: readonly string[]
}

const when = (
  path: string,
  feature: string,
  used: (config: Config) => boolean,
  keys: readonly string[] = [path],
): AbsentFeature => ({
  path,
  feature,
  uses: (config) => (used(config) ? [path] : []),
  keys,
})

/** Without `token_secret`: bindings are encrypted under it. */
const ADMIN_KEYS = [
  'enabled',
  'base_path',
  'token_expiry_seconds',
  'initial_admin_email',
  'password_length',
  'default_page_size',
  'max_page_size',
].map((key) => `admin_api.${key}`)

const OTHER_BACKENDS = ['ca.external', 'ca.acme_proxy', 'ca.extension_settings']

export const ABSENT_FEATURES: readonly AbsentFeature[] = [
  when('ca.backend', 'this backend is', ({ ca }) => ca.backend !== 'internal' && ca.backend !== 'hsm', OTHER_BACKENDS),
  when('smtp.enabled', 'sending mail is', (c) => c.smtp.enabled, ['smtp']),
  when('logging.audit.enabled', 'the audit log is', (c) => c.logging.audit.enabled, ['logging.audit']),
  when('logging.audit.file', 'the audit log is', (c) => c.logging.audit.file !== null),
  when('logging.audit.syslog', 'the audit log is', (c) => c.logging.audit.syslog),
  when('notifications.enabled', 'notifications are', (c) => c.notifications.enabled, ['notifications']),
  {
    path: 'hooks.registered',
    feature: 'hooks are',
    uses: (c) => c.hooks.registered.flatMap((hook, index) => (hook.enabled ? [`hooks.registered[${index}]`] : [])),
    keys: ['hooks'],
  },
  when('nonce.audit_consumed', 'the record of used nonces is', (c) => c.nonce.audit_consumed),
  when('admin_api.enabled', 'the Admin API is', (c) => c.admin_api.enabled, ADMIN_KEYS),
  when('metrics.auth_required', 'an admin token is', (c) => c.metrics.auth_required),
  when('ct_logging.enabled', 'certificate transparency is', (c) => c.ct_logging.enabled, ['ct_logging']),
  when('audit_retention.enabled', 'the audit log is', (c) => c.audit_retention.enabled, ['audit_retention']),
  when('audit_export.webhook_url', 'audit export is', (c) => c.audit_export.webhook_url !== null, ['audit_export']),
  when('audit_export.syslog_host', 'audit export is', (c) => c.audit_export.syslog_host !== null, ['audit_export']),
]

export interface Inert {
  path: string
  /** Why the key has no effect; undefined for a value that requests none. Reported at the key. */
  because(config: Config): string | undefined
}

/** Keys of existing configurations without any effect here. Each is a warning, not an error. */
export const WITHOUT_EFFECT: readonly Inert[] = [
  {
    path: 'server.worker_class',
    because: ({ server }) =>
      server.worker_class === 'thread'
        ? undefined
        : `${server.worker_class} means the same as thread here; database.max_connections counts for all threads together`,
  },
  {
    path: 'nonce.length',
    because: () => 'has no effect: every nonce is 16 bytes long, which are 22 characters',
  },
  {
    path: 'ca.deferred_signing_timeout',
    because: () =>
      'has no effect: no backend of this version signs later; ca.signer.timeout_seconds bounds a signature',
  },
  {
    path: 'retention.expiration_notice_max_age_days',
    because: () => 'has no effect: this version sends no expiration warnings, and keeps no records of them',
  },
]

const isWithin = (key: string, holder: string) => key === holder || key.startsWith(`${holder}.`)

/** Every key of the feature that a file can set. */
export const keysOfFeature = ({ keys }: AbsentFeature): string[] =>
  LEAVES.map(({ path }) => formatPath(path)).filter((key) => keys.some((holder) => isWithin(key, holder)))

/** Whether no code of this version reads the key. */
export function isInert(path: Path): boolean {
  const key = formatPath(path)
  return (
    WITHOUT_EFFECT.some((entry) => entry.path === key) ||
    ABSENT_FEATURES.some(({ keys }) => keys.some((holder) => isWithin(key, holder)))
  )
}
