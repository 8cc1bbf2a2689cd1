/** Example configurations with mail and export start, once the names of their machines are replaced. */

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { parse } from 'yaml'
import { formatErrors, loadConfig } from '../../src/config/load.ts'
import { startTestService } from '../support/service.ts'

/** Seen from the compiled file. */
const FIXTURES = path.resolve(import.meta.dirname, '../../../test/fixtures/config')

type Section = Record<string, unknown>

const ENVIRONMENT = {
  ACMEEH_EXTERNAL_URL: 'https://acme.example.com',
  POSTGRES_PASSWORD: 'secret',
  DB_PASSWORD: 'secret',
  SMTP_PASSWORD: 'secret',
  ADMIN_TOKEN_SECRET: '0123456789abcdef0123456789abcdef',
}

/** What a test service sets itself: its address, database, CA, and a log that the test reads. */
const OF_THE_TEST: Record<string, readonly string[]> = {
  server: ['external_url', 'bind', 'port', 'workers', 'graceful_timeout'],
  database: ['host', 'port', 'database', 'user', 'password', 'sslmode', 'min_connections', 'max_connections'],
  logging: ['format'],
}
const PATHS_OF_CA = ['root_cert_path', 'root_key_path', 'chain_path']

const without = (section: Section, names: readonly string[]) =>
  Object.fromEntries(Object.entries(section).filter(([name]) => !names.includes(name)))

describe('the example configuration', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-examples-'))
  Object.assign(process.env, ENVIRONMENT)
  after(() => rmSync(folder, { recursive: true, force: true }))

  /** Loopback instead of names of the network, and a file that may be written. */
  function onThisMachine(example: Record<string, Section>): Record<string, Section> {
    const kept = Object.entries(example).map(([name, section]) => [name, without(section, OF_THE_TEST[name] ?? [])])
    const config = Object.fromEntries(kept) as Record<string, Section>
    const { ca = {}, smtp, audit_export, logging } = config
    config.ca = { ...ca, internal: without((ca.internal ?? {}) as Section, PATHS_OF_CA) }
    if (smtp?.enabled === true) config.smtp = { ...smtp, host: '127.0.0.1' }
    if (audit_export?.syslog_host === 'syslog.example.com')
      config.audit_export = { ...audit_export, syslog_host: '127.0.0.1', webhook_url: 'https://127.0.0.1:9/events' }
    const audit = logging?.audit as Section | undefined
    if (audit?.file) config.logging = { ...logging, audit: { ...audit, file: path.join(folder, 'audit.log') } }
    return config
  }

  for (const name of ['email', 'audit-export', 'docker-compose', 'production'])
    test(`${name} starts`, async () => {
      const example = parse(readFileSync(path.join(FIXTURES, `${name}.yaml`), 'utf8')) as Record<string, Section>
      const service = await startTestService({ config: onThisMachine(example) })
      try {
        assert.equal((await fetch(service.directoryUrl)).status, 200)
      } finally {
        assert.equal(await service.stop(), 0)
        await service.dispose()
      }
    })

  for (const [name, expected] of [
    [
      'hooks',
      /^hooks\.registered\[0\]\.class \(line \d+\): .*write ext:\.\/hooks\/inventoryhook\.js#InventoryHook, or webhook/m,
    ],
    ['certificate-transparency', /^ct_logging\.submit_precert \(line \d+\): .*set it to false/m],
  ] as const)
    test(`${name} is refused with line, key and what to write instead`, async () => {
      const loaded = await loadConfig(path.join(FIXTURES, `${name}.yaml`), ENVIRONMENT)
      assert.ok(!loaded.ok)
      assert.match(formatErrors(loaded.errors), expected)
    })
})
