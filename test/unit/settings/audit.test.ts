/** Where audit records go, by configuration; and that the events thread runs exactly where somebody wants events. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { wantsEvents } from '../../../src/config/connections.ts'
import { auditFile, syslogTarget, transparencyLogs } from '../../../src/settings/event-settings.ts'
import { parseTree, type Tree } from '../config/support.ts'

function configOf(patch: Tree) {
  const parsed = parseTree(patch)
  assert.ok(parsed.ok, JSON.stringify(parsed))
  return parsed.config
}

const syslog = (audit_export: Tree, logging: Tree = {}) => {
  const target = syslogTarget(configOf({ audit_export, logging }))
  return target && `${target.transport} ${target.host}:${target.port}`
}

describe('the syslog daemon', () => {
  test('none is named by default', () => assert.equal(syslog({}), undefined))
  test('UDP is the protocol of port 514', () => assert.equal(syslog({ syslog_host: 'a' }), 'udp a:514'))
  test('TLS is the protocol of port 6514 (RFC 5425 §4.1)', () =>
    assert.equal(syslog({ syslog_host: 'a', syslog_port: 6514 }), 'tls a:6514'))
  test('a protocol that is named holds for every port', () =>
    assert.equal(syslog({ syslog_host: 'a', syslog_port: 6514, syslog_transport: 'tcp' }), 'tcp a:6514'))
  test('logging.audit.syslog without a host means this one', () => {
    assert.equal(syslog({}, { audit: { syslog: true } }), 'udp localhost:514')
    assert.equal(syslog({ syslog_host: 'a' }, { audit: { syslog: true } }), 'udp a:514')
    assert.equal(syslog({}, { audit: { syslog: true, enabled: false } }), undefined)
  })
  test('a CA file that is not there is an error', () =>
    assert.throws(
      () => syslog({ syslog_host: 'a', syslog_ca_file: '/absent.pem' }),
      /syslog_ca_file \/absent\.pem: ENOENT/,
    ))
})

test('the file is written unless the audit log is off', () => {
  const file = '/log/audit.log'
  assert.deepEqual(auditFile(configOf({ logging: { audit: { file, backup_count: 3 } } })), {
    path: file,
    maxBytes: 104_857_600,
    backups: 3,
  })
  assert.equal(auditFile(configOf({ logging: { audit: { file, enabled: false } } })), undefined)
})

test('a transparency log whose key cannot be read is an error', () => {
  const logs = [{ url: 'https://ct.test/2026/', public_key_path: '/absent.pem' }]
  assert.throws(() => transparencyLogs(configOf({ ct_logging: { enabled: true, logs } })), /\/absent\.pem: ENOENT/)
  const [log] = transparencyLogs(configOf({ ct_logging: { enabled: true, logs: [{ url: 'https://ct.test/2026/' }] } }))
  assert.deepEqual(log, { url: 'https://ct.test/2026', key: undefined, timeoutMs: 10_000 })
})

test('events are wanted exactly where a consumer is configured', () => {
  const quiet = { notifications: { enabled: false } }
  assert.equal(wantsEvents(configOf(quiet)), false)
  for (const patch of [
    { audit_export: { webhook_url: 'https://siem.test/' } },
    { audit_export: { syslog_host: 'a' } },
    { logging: { audit: { syslog: true } } },
    { logging: { audit: { file: '/log/audit.log' } } },
    { ct_logging: { enabled: true, logs: [{ url: 'https://ct.test' }] } },
  ])
    assert.ok(wantsEvents(configOf({ ...quiet, ...patch })), JSON.stringify(patch))
})
