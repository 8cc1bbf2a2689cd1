/** Example configurations with mail and export start, once the names of their machines are replaced. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { formatErrors, loadConfig, parseConfigText } from '../../src/config/load.ts'
import { loadHooks } from '../../src/events/hooks/load-hooks.ts'
import { MailTransport } from '../../src/events/notifications/transport.ts'
import { type ConsumerContext, consumersOf } from '../../src/main/events/consumers.ts'
import { mailSettings } from '../../src/settings/event-settings.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Seen from the compiled file. */
const FIXTURES = path.resolve(import.meta.dirname, '../../../test/fixtures/config')

type Section = Record<string, unknown>
type Example = Record<string, Section>

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

const isSection = (value: unknown): value is Section =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const without = (section: Section, names: readonly string[]) =>
  Object.fromEntries(Object.entries(section).filter(([name]) => !names.includes(name)))

/** Each member of the second, or of the first where the second has none. */
function laidOver(base: Section, over: Section): Section {
  const members = Object.entries(over).map(([name, value]) => {
    const below = base[name]
    return [name, isSection(value) && isSection(below) ? laidOver(below, value) : value]
  })
  return { ...base, ...Object.fromEntries(members) }
}

describe('the example configuration', () => {
  const folder = temporaryFolder()
  Object.assign(process.env, ENVIRONMENT)

  const read = (name: string) => parse(readFileSync(path.join(FIXTURES, `${name}.yaml`), 'utf8')) as Example

  /** Loopback instead of names of the network, and a file that may be written. */
  function onThisMachine(example: Example): Example {
    const { smtp, audit_export, logging } = example
    const config = { ...example }
    if (smtp?.enabled === true) config.smtp = { ...smtp, host: '127.0.0.1' }
    if (audit_export?.syslog_host === 'syslog.example.com')
      config.audit_export = { ...audit_export, syslog_host: '127.0.0.1', webhook_url: 'https://127.0.0.1:9/events' }
    const audit = logging?.audit as Section | undefined
    if (audit?.file) config.logging = { ...logging, audit: { ...audit, file: path.join(folder, 'audit.log') } }
    return config
  }

  function forService(example: Example): Example {
    const kept = Object.entries(example).map(([name, section]) => [name, without(section, OF_THE_TEST[name] ?? [])])
    const config = Object.fromEntries(kept) as Example
    const { ca = {} } = config
    return { ...config, ca: { ...ca, internal: without((ca.internal ?? {}) as Section, PATHS_OF_CA) } }
  }

  const NAMES = ['docker-compose', 'email', 'audit-export', 'production']

  for (const name of NAMES)
    test(`${name} is accepted, and all that it sends to can be made from it`, async () => {
      const text = stringify(onThisMachine(read(name)))
      const parsed = parseConfigText(text, { format: 'yaml', env: ENVIRONMENT })
      assert.ok(parsed.ok, parsed.ok ? '' : formatErrors(parsed.errors))
      const { config } = parsed
      const hooks = await loadHooks(config)
      const consumers = await consumersOf({ config, hooks } as unknown as ConsumerContext)
      await consumers.close()
      if (config.smtp.enabled) new MailTransport(mailSettings(config)).close()
    })

  test(`${NAMES.join(', ')} start, one laid over the other`, async () => {
    const config = NAMES.map((name): Section => forService(onThisMachine(read(name)))).reduce(laidOver)
    const service = await startTestService({ fronts: 1, config })
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
