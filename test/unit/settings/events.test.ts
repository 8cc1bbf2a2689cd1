/** Each key of mail, notifications, hooks, transparency and audit reaches what runs: key, value, what becomes of it. */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { wantsEvents } from '../../../src/config/connections.ts'
import type { Config } from '../../../src/config/schema.ts'
import { LEAVES } from '../../../src/config/schema.ts'
import { sampleEvent } from '../../../src/domain/event-samples.ts'
import { loadHooks } from '../../../src/events/hooks/load-hooks.ts'
import { type ConsumerContext, consumersOf } from '../../../src/main/events/consumers.ts'
import { type Events, smtpStatus } from '../../../src/main/events/start-events.ts'
import {
  auditFile,
  auditWebhook,
  expirationSettings,
  mailSettings,
  noticeAges,
  notificationSettings,
  syslogTarget,
  templatesPath,
  transparencyLogs,
} from '../../../src/settings/event-settings.ts'
import { formatPath } from '../../../src/shared/config-file/notice.ts'
import { loopbackCertificate } from '../../support/certificates.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'
import { aConfig, nested, parseTree, type Tree } from '../config/support.ts'

const { cert } = await loopbackCertificate()
// Not before something is waited for: the tests of another file in this process may end, and the folder with them.
const folder = temporaryFolder()
const file = (name: string, text = 'text') => {
  const at = path.join(folder, name)
  writeFileSync(at, text)
  return at
}

const URL_OF_HOOK = 'https://hooks.test/'
const hook = (more: Tree = {}) => ({ class: 'webhook', config: { url: URL_OF_HOOK }, ...more })
const hooksOf = (config: Config) => loadHooks(config)
const firstHook = async (config: Config) => (await loadHooks(config))[0]
async function consumersFor(config: Config) {
  const context = { config, hooks: await loadHooks(config) } as unknown as ConsumerContext
  return consumersOf(context)
}
const EVENT = sampleEvent('alarm')

/** What is set beside the key. */
type Row = readonly [key: string, value: unknown, effect: (c: Config) => unknown, expected: unknown, beside?: Tree]

const MAIL = { 'smtp.host': 'mail.test', 'smtp.from_address': 'acme@mail.test' }
const LOGIN = { ...MAIL, 'smtp.username': 'u', 'smtp.password': 'p' }
const LOG = { 'ct_logging.enabled': true }
const WEBHOOK = { 'audit_export.webhook_url': 'https://siem.test/' }
const SYSLOG = { 'audit_export.syslog_host': 'a' }
const AUDIT_FILE = { 'logging.audit.file': '/log/a' }

const DAY_MS = 86_400_000
const TYPES = ['delivery_succeeded']
const CT_URL = 'https://ct.test/a'
const KEYED_LOG = { url: CT_URL, public_key_path: file('ct.pem', cert) }
const logs = () => ({ 'ct_logging.logs': [{ url: CT_URL }] })
const hooks = (...registered: Tree[]) => ({ 'hooks.registered': registered })
const MODULE = path.resolve(import.meta.dirname, '../../../../test/fixtures/hooks/hooks.mjs')
const flaky = { class: `ext:${MODULE}#Flaky`, config: { file: '/dev/null' } }
/** Whether the second and the third attempt of the first hook come. */
async function attemptsOf(config: Config) {
  const { external, close } = await consumersFor(config)
  await close()
  return [1, 2].map((failures) => external[0]?.retryDelayMs(failures, new Error('no')) !== undefined)
}
const concurrencies = async (config: Config) =>
  (await consumersFor(config)).external.map(({ concurrency }) => concurrency)
const isProbed = (config: Config) => smtpStatus(config, {} as Events) !== undefined

const ROWS: readonly Row[] = [
  ['smtp.enabled', true, isProbed, true, MAIL],
  ['smtp.enabled', false, isProbed, false, MAIL],
  ['smtp.host', 'mail.test', (c) => mailSettings(c).host, 'mail.test', MAIL],
  ['smtp.port', 2525, (c) => mailSettings(c).port, 2525, MAIL],
  ['smtp.username', 'u', (c) => mailSettings(c).login?.user, 'u', LOGIN],
  ['smtp.password', 'p', (c) => mailSettings(c).login?.pass, 'p', LOGIN],
  ['smtp.use_tls', false, (c) => mailSettings(c).tls, 'none', MAIL],
  ['smtp.use_tls', true, (c) => mailSettings(c).tls, 'starttls', MAIL],
  ['smtp.use_tls', true, (c) => mailSettings(c).tls, 'implicit', { ...MAIL, 'smtp.port': 465 }],
  ['smtp.tls', 'implicit', (c) => mailSettings(c).tls, 'implicit', MAIL],
  ['smtp.ca_file', file('ca.pem'), (c) => mailSettings(c).ca, 'text', MAIL],
  ['smtp.from_address', 'acme@mail.test', (c) => mailSettings(c).from, 'acme@mail.test', MAIL],
  ['smtp.cc', ['a@mail.test'], (c) => mailSettings(c).cc, ['a@mail.test'], MAIL],
  ['smtp.bcc', ['b@mail.test'], (c) => mailSettings(c).bcc, ['b@mail.test'], MAIL],
  ['smtp.templates_path', '/mails', templatesPath, '/mails', MAIL],
  ['smtp.timeout_seconds', 7, (c) => mailSettings(c).timeoutMs, 7_000, MAIL],
  ['notifications.enabled', false, wantsEvents, false],
  ['notifications.enabled', true, wantsEvents, true],
  ['notifications.max_per_recipient_per_hour', 3, (c) => notificationSettings(c).mostToRecipient, 3],
  ['notifications.max_retries', 9, (c) => notificationSettings(c).maxRetries, 9],
  ['notifications.retry_delay_seconds', 9, (c) => notificationSettings(c).retryDelayMs, 9_000],
  ['notifications.retry_backoff_multiplier', 3, (c) => notificationSettings(c).retryBackoffMultiplier, 3],
  ['notifications.retry_max_delay_seconds', 99, (c) => notificationSettings(c).retryMaxDelayMs, 99_000],
  ['notifications.retry_interval_seconds', 9, (c) => notificationSettings(c).retryIntervalMs, 9_000],
  ['notifications.batch_size', 5, (c) => notificationSettings(c).batchSize, 5],
  ['notifications.expiration_warning_days', [21], (c) => expirationSettings(c).warningDays, [21]],
  ['notifications.expiration_check_interval_seconds', 60, (c) => expirationSettings(c).intervalMs, 60_000],
  ['notifications.disabled_types', TYPES, (c) => notificationSettings(c).disabledTypes, TYPES],
  ['hooks.timeout_seconds', 7, async (c) => (await firstHook(c))?.timeoutMs, 7_000, hooks(hook())],
  ['hooks.max_workers', 8, concurrencies, [4, 4], hooks(hook(), hook())],
  ['hooks.max_retries', undefined, attemptsOf, [false, false], hooks(flaky)],
  ['hooks.max_retries', 1, attemptsOf, [true, false], hooks(flaky)],
  ['hooks.dead_letter_log', undefined, (c) => c.hooks.dead_letter_log, null, hooks(hook())],
  ['hooks.registered', [hook()], async (c) => (await hooksOf(c)).length, 1],
  ['ct_logging.enabled', true, (c) => transparencyLogs(c).length, 1, logs()],
  ['ct_logging.enabled', false, (c) => transparencyLogs(c).length, 0, logs()],
  ['ct_logging.logs', [{ url: CT_URL }], (c) => transparencyLogs(c)[0]?.url, CT_URL, LOG],
  ['ct_logging.logs', [{ url: CT_URL, timeout_seconds: 3 }], (c) => transparencyLogs(c)[0]?.timeoutMs, 3_000, LOG],
  ['ct_logging.logs', [KEYED_LOG], (c) => transparencyLogs(c)[0]?.key?.type, 'public', LOG],
  ['ct_logging.submit_precert', true, isRefused, true, { ...LOG, ...logs() }],
  ['audit_export.webhook_url', 'https://siem.test/', (c) => auditWebhook(c)?.url, 'https://siem.test/'],
  ['audit_export.webhook_allow_private', true, (c) => auditWebhook(c)?.allowPrivate, true, WEBHOOK],
  ['audit_export.webhook_batch', 50, (c) => auditWebhook(c)?.batch, 50, WEBHOOK],
  ['audit_export.syslog_host', 'a', (c) => syslogTarget(c)?.host, 'a'],
  ['audit_export.syslog_port', 601, (c) => syslogTarget(c)?.port, 601, SYSLOG],
  ['audit_export.syslog_transport', 'tcp', (c) => syslogTarget(c)?.transport, 'tcp', SYSLOG],
  ['audit_export.syslog_ca_file', file('syslog.pem'), (c) => syslogTarget(c)?.ca, 'text', SYSLOG],
  ['logging.audit.enabled', false, auditFile, undefined, AUDIT_FILE],
  ['logging.audit.file', '/log/a', (c) => auditFile(c)?.path, '/log/a'],
  ['logging.audit.syslog', true, (c) => syslogTarget(c)?.host, 'localhost'],
  ['logging.audit.max_file_size_bytes', 2_097_152, (c) => auditFile(c)?.maxBytes, 2_097_152, AUDIT_FILE],
  ['logging.audit.backup_count', 2, (c) => auditFile(c)?.backups, 2, AUDIT_FILE],
  ['retention.notification_max_age_days', 3, (c) => noticeAges(c).notificationMs, 3 * DAY_MS],
  ['retention.expiration_notice_max_age_days', 3, (c) => noticeAges(c).noticeMs, 3 * DAY_MS],
]

function isRefused({ ct_logging }: Config): boolean {
  const parsed = parseTree({ ct_logging })
  return !parsed.ok
}

const OF_EVENTS =
  /^(?:(?:smtp|notifications|hooks|ct_logging|audit_export|logging\.audit)\.|retention\.(?:notification|expiration_notice)_)/

describe('a key and its effect:', () => {
  for (const [key, value, effect, expected, beside] of ROWS)
    test(`${key} ${JSON.stringify(expected)}`, async () => {
      const patch = nested({ ...beside, ...(value !== undefined && { [key]: value }) })
      assert.deepEqual(await effect(aConfig(patch)), expected)
    })

  test('members of a registered hook', async () => {
    const registered = [
      hook({ enabled: false }),
      hook({ events: ['order.creation'], timeout_seconds: 9, config: { url: URL_OF_HOOK, max_retries: 2 } }),
      { class: 'acmeeh.hooks.audit_export_hook.AuditWebhookHook', config: { webhook_url: URL_OF_HOOK } },
    ]
    const [webhook, plain, ...others] = await loadHooks(aConfig({ hooks: { registered } }))
    assert.ok(webhook && 'url' in webhook && plain && 'url' in plain)
    assert.deepEqual([webhook.kinds, webhook.timeoutMs, webhook.maxRetries], [['order.creation'], 9_000, 2])
    assert.deepEqual([webhook.isPlain, plain.isPlain, others], [false, true, []])
    assert.deepEqual(plain.kinds, ['certificate.issuance', 'certificate.revocation', 'account.registration'])
  })

  test('hooks.dead_letter_log gets the events that a hook did not take', async () => {
    const letters = path.join(folder, 'dead.jsonl')
    const { external, buried, close } = await consumersFor(
      aConfig({ hooks: { dead_letter_log: letters, registered: [hook()] } }),
    )
    buried(external[0]?.name ?? '', EVENT, new Error('no'))
    await until('the letter is written', () => hasLine(letters))
    await close()
  })

  test('every key of these sections is in the table', () => {
    const shown = new Set(ROWS.map(([key]) => key))
    const found = LEAVES.map(({ path: key }) => formatPath(key)).filter((key) => OF_EVENTS.test(key) && !shown.has(key))
    assert.deepEqual(found, [])
  })

  test('SIGHUP applies every key of notifications', () => {
    const others = LEAVES.filter(({ path: key }) => key[0] === 'notifications').filter(
      ({ node }) => node.reload !== 'live',
    )
    assert.deepEqual(others, [])
  })
})

function hasLine(at: string): boolean {
  try {
    return JSON.parse(readFileSync(at, 'utf8')).event_id === EVENT.id
  } catch {
    return false
  }
}
