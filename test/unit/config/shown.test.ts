// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${VAR} is the syntax of the file
/** The configuration as administrators may read it. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfigText } from '../../../src/config/load.ts'
import { HIDDEN, shownSettings } from '../../../src/config/shown.ts'

const TEXT = `
server: { external_url: https://acme.example.com, port: 8444 }
database: { database: chancery, user: chancery, password: "\${DB_PASSWORD}" }
ca: { internal: { root_cert_path: ca.pem, root_key_path: ca.key } }
hooks:
  registered:
    - { class: webhook, events: [certificate.issuance], config: { url: "https://h.test/x", secret: a-secret-of-a-webhook } }
`

function shown(text = TEXT) {
  const parsed = parseConfigText(text, { format: 'yaml', env: { DB_PASSWORD: 'the password' } })
  assert.ok(parsed.ok, JSON.stringify(parsed))
  const settings = shownSettings(parsed.config, parsed.sources)
  return { settings, of: (key: string) => settings.find((one) => one.key === key) }
}

test('each key has its value, its source and what changes it', () => {
  const { of } = shown()
  const port = of('server.port')
  assert.deepEqual([port?.value, port?.default, port?.source, port?.reload], [8444, 8443, 'file', 'restart'])
  assert.deepEqual([of('logging.level')?.source, of('logging.level')?.reload], ['default', 'live'])
  const password = of('database.password')
  assert.deepEqual([password?.source, password?.variable, password?.value], ['variable', 'DB_PASSWORD', HIDDEN])
})

test('a secret is hidden wherever it stands; one that is not set is null', () => {
  const { settings, of } = shown()
  const text = JSON.stringify(settings)
  for (const secret of ['the password', 'a-secret-of-a-webhook']) assert.ok(!text.includes(secret), secret)
  assert.equal(of('smtp.password')?.value, null)
  assert.match(JSON.stringify(of('hooks.registered')?.value), /webhook.*\(hidden\)/)
})
