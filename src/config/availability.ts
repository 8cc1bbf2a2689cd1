/**
 * Settings whose feature this version does not have. The key tree is complete from the start; switching on what is
 * not there is an error, and what would be on by default is named in one warning. A feature that arrives takes its
 * row away.
 */

import type { Config } from './schema.ts'

export interface AbsentFeature {
  /** The key that switches the feature on. */
  path: string
  feature: string
  /** The keys that make use of it; empty when it is off. */
  uses(config: Config): readonly string[]
}

const when = (path: string, feature: string, used: (config: Config) => boolean): AbsentFeature => ({
  path,
  feature,
  uses: (config) => (used(config) ? [path] : []),
})

export const ABSENT_FEATURES: readonly AbsentFeature[] = [
  when('ca.backend', 'this backend is', (c) => c.ca.backend !== 'internal' && c.ca.backend !== 'hsm'),
  when('smtp.enabled', 'sending mail is', (c) => c.smtp.enabled),
  when('logging.audit.enabled', 'the audit log is', (c) => c.logging.audit.enabled),
  when('logging.audit.file', 'the audit log is', (c) => c.logging.audit.file !== null),
  when('logging.audit.syslog', 'the audit log is', (c) => c.logging.audit.syslog),
  when('notifications.enabled', 'notifications are', (c) => c.notifications.enabled),
  {
    path: 'hooks.registered',
    feature: 'hooks are',
    uses: (c) => c.hooks.registered.flatMap((hook, index) => (hook.enabled ? [`hooks.registered[${index}]`] : [])),
  },
  when('nonce.audit_consumed', 'the record of used nonces is', (c) => c.nonce.audit_consumed),
  when('admin_api.enabled', 'the Admin API is', (c) => c.admin_api.enabled),
  when('metrics.auth_required', 'an admin token is', (c) => c.metrics.auth_required),
  when('ct_logging.enabled', 'certificate transparency is', (c) => c.ct_logging.enabled),
  when('audit_retention.enabled', 'the audit log is', (c) => c.audit_retention.enabled),
  when('audit_export.webhook_url', 'audit export is', (c) => c.audit_export.webhook_url !== null),
  when('audit_export.syslog_host', 'audit export is', (c) => c.audit_export.syslog_host !== null),
]
