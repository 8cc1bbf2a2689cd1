// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${VAR} is the syntax of the file

import assert from 'node:assert/strict'
import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { formatErrors, loadConfig, parseConfigText } from '../../../src/config/load.ts'
import { forAllIn, forAnyInput, propertyRuns } from '../../support/property-runs.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { words } from '../../support/words.ts'
import { acceptedConfig, errorLines, MINIMAL, merged, parseTree, parseYaml } from './support.ts'

const REST = `
database: { database: chancery, user: chancery }
ca: { internal: { root_cert_path: ca.pem, root_key_path: ca.key } }
`
const withServer = (lines: string) => `server:\n  external_url: https://acme.example.com\n${lines}${REST}`

describe('errors', () => {
  test('nine errors of all stages are printed at once, in the order of the file, each with its line', () => {
    const text = `server:
  external_url: https://acme.example.com/
  prot: 8443
  port: 70000
  timeout: "30"
database:
  database: chancery
  user: \${DB_USER}
  min_connections: 60
  database: other
security:
  allowed_algorithms: [ES256, HS256]
challenges:
  http01:
    blocked_networks: [10.0.0.0/33]
smtp:
  enabled: true
  host: mail.test
  from_address: ca@mail.test
ca:
  internal: { root_cert_path: ca.pem, root_key_path: ca.key }
`
    assert.deepEqual(errorLines(parseYaml(text)), [
      'server.external_url (line 2): ends with a slash; leave the final slash out',
      'server.prot (line 3): unknown key; did you mean port?',
      'server.port (line 4): is 70000; must be a whole number from 1 to 65535',
      'server.timeout (line 5): is "30"; must be a whole number, at least 1, without quotes',
      'database.user (line 8): the variable DB_USER is not set; set it or give a default: ${DB_USER:-default}',
      'database.min_connections (line 9): is 60; must be at most database.max_connections, which is 20',
      'database.database (line 10): written a second time, first on line 7; keep one of the two',
      'security.allowed_algorithms[1] (line 12): is "HS256"; must be one of ES256, ES384, ES512, RS256, RS384, RS512, PS256, EdDSA',
      'challenges.http01.blocked_networks[0] (line 15): is "10.0.0.0/33"; must be an IP address or a network such as 10.0.0.0/8',
    ])
  })

  test('a missing section does not hide the errors of the others', () =>
    assert.deepEqual(errorLines(parseYaml('logging:\n  level: LOUD\n')), [
      'server.external_url: is missing; must be an http:// or https:// URL without user, query or fragment, such as https://acme.example.com',
      'database.database: is missing; must be a text that is not empty',
      'database.user: is missing; must be a text that is not empty',
      'ca.internal.root_cert_path: is missing; ca.backend internal needs it, or ca.signer.socket in its place',
      'ca.internal.root_key_path: is missing; ca.backend internal needs it, or ca.signer.socket in its place',
      'logging.level (line 2): is "LOUD"; must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL',
    ]))

  test('a key that is missing from a section is placed at the section', () =>
    assert.deepEqual(
      errorLines(
        parseYaml(
          `server: { external_url: "https://a.example" }\nca: { internal: { root_cert_path: a, root_key_path: b } }\n\ndatabase:\n  user: u\n`,
        ),
      ),
      ['database.database (line 4): is missing; must be a text that is not empty'],
    ))

  test('a rule between keys is not judged on a key that is itself wrong', () =>
    assert.deepEqual(errorLines(parseTree({ database: { min_connections: 60, max_connections: 'many' } })), [
      'database.max_connections (line 1): is "many"; must be a whole number, at least 1, without quotes',
    ]))

  const unknownKeys: [string, string][] = [
    ['  externl_url: x\n', 'server.externl_url (line 3): unknown key; did you mean external_url?'],
    ['  Port: 1\n', 'server.Port (line 3): unknown key; did you mean port?'],
    ['  graceful-timeout: 1\n', 'server.graceful_timeout'],
    ['  zebra: 1\n', 'unknown key; known here: external_url, bind, port'],
    ['  _comment: no\n', 'server._comment (line 3): unknown key'],
  ]
  for (const [line, expected] of unknownKeys)
    test(`the unknown key in "${line.trim()}" is named`, () => {
      const [first = ''] = errorLines(parseYaml(withServer(line)))
      assert.ok(first.includes(expected.replace('server.graceful_timeout', 'did you mean graceful_timeout')), first)
    })

  test('an unknown section is named with the one that was meant', () =>
    assert.deepEqual(errorLines(parseTree({ loging: {} })), ['loging (line 1): unknown key; did you mean logging?']))

  test('a switch written as yes is explained', () =>
    assert.deepEqual(errorLines(parseYaml(`${withServer('')}metrics:\n  enabled: yes\n`)), [
      'metrics.enabled (line 7): is "yes"; must be true or false, without quotes',
    ]))

  const syntax: [string, string, RegExp][] = [
    ['a tab as indentation', 'server:\n\tport: 1\n', /line 2\): a tab is used/],
    ['an open quote', 'server:\n  bind: "x\n', /line \d\): a closing quote/],
    ['two documents', 'a: 1\n---\nb: 2\n', /line \d\): a second document/],
    ['an alias without anchor', 'server: *nowhere\n', /line 1\): alias without an anchor/],
    ['an alias inside its anchor', 'server: &s\n  tls: *s\n', /line 2\): alias to a section that contains it/],
    ['an unknown tag', 'server: !thing {}\n', /line 1\): unknown tag/],
    ['a list', '- 1\n', /line 1\): holds no sections/],
    ['a bare text', 'hello\n', /line 1\): holds no sections/],
  ]
  for (const [name, text, expected] of syntax)
    test(`${name} is refused with its line`, () => assert.match(errorLines(parseYaml(text)).join('\n'), expected))

  test('aliases that multiply are refused, not expanded', () => {
    const levels = Array.from({ length: 9 }, (_, n) => `k${n + 1}: &k${n + 1} [${Array(9).fill(`*k${n}`).join(', ')}]`)
    assert.match(errorLines(parseYaml(`k0: &k0 [x, x]\n${levels.join('\n')}\n`)).join('\n'), /expand to too much/)
  })
})

describe('formats', () => {
  const folder = temporaryFolder()
  const write = async (name: string, text: string) => {
    const file = path.join(folder, name)
    await writeFile(file, text)
    return file
  }

  for (const name of ['a.json', 'a.JSON', 'a.yaml', 'a.yml'])
    test(`${name} is read, and the result says from where`, async () => {
      const file = await write(name, JSON.stringify(MINIMAL))
      const loaded = await loadConfig(file, {})
      assert.ok(loaded.ok)
      assert.equal(loaded.path, file)
      assert.equal(loaded.config.server.external_url, 'https://acme.example.com')
    })

  const FROM_VARIABLE = '${DB_PASSWORD}'
  for (const [what, password, mode, warned] of [
    ['a password in a file that everybody may read is worth a warning', 'hunter2', 0o644, true],
    ['in one that owner and group may read it is not', 'hunter2', 0o640, false],
    ['a password from a variable is not in the file', FROM_VARIABLE, 0o644, false],
  ] as const)
    test(what, async () => {
      const file = await write('password.yaml', JSON.stringify(merged(MINIMAL, { database: { password } })))
      await chmod(file, mode)
      const loaded = await loadConfig(file, { DB_PASSWORD: 'hunter2' })
      assert.ok(loaded.ok)
      const said = formatErrors(loaded.warnings)
      assert.equal(/^database\.password \(line 1\): is a secret, .*\(mode 644\)/m.test(said), warned, said)
      assert.doesNotMatch(said, /hunter2/)
    })

  test('each secret of a readable file is named once', async () => {
    const perspective = { name: 'far', url: 'https://far.example', token: 'a-token-of-some-length' }
    const tree = {
      challenges: { perspectives: [perspective] },
      perspective: { tokens: ['a'.repeat(16), 'b'.repeat(16)] },
    }
    const file = await write('secrets.yaml', JSON.stringify(merged(MINIMAL, tree)))
    await chmod(file, 0o604)
    const loaded = await loadConfig(file, {}, { sections: ['challenges', 'perspective'] })
    assert.ok(loaded.ok, loaded.ok ? '' : formatErrors(loaded.errors))
    const named = loaded.warnings.filter(({ message }) => message.includes('is a secret')).map(({ path: key }) => key)
    assert.deepEqual(named, ['challenges.perspectives[0].token', 'perspective.tokens'])
  })

  test('of the settings of a hook, those are named that look like a secret', async () => {
    const config = {
      channel: 'ops',
      retries: 3,
      root_file: '/etc/chancery/ca.pem',
      url: 'https://collector.example/events',
      api_key: 'k',
      auth: { password: 'p' },
      hook: 'https://chat.example/T0/B1x2y3z4A5b6C7d8E9f0G1',
    }
    const registered = [{ class: 'ext:./hooks/notify.mjs#Notify', config }]
    const file = await write('hook.yaml', JSON.stringify(merged(MINIMAL, { hooks: { registered } })))
    await chmod(file, 0o604)
    const loaded = await loadConfig(file, {}, { sections: ['hooks'] })
    assert.ok(loaded.ok, loaded.ok ? '' : formatErrors(loaded.errors))
    const named = loaded.warnings.filter(({ message }) => message.startsWith('looks like a secret'))
    const keys = ['api_key', 'auth.password', 'hook']
    const paths = named.map(({ path: key }) => key)
    assert.deepEqual(
      paths,
      keys.map((key) => `hooks.registered[0].config.${key}`),
    )
  })

  test('another extension is refused', async () => {
    const loaded = await loadConfig(await write('a.toml', ''), {})
    assert.ok(!loaded.ok && /neither \.yaml, \.yml nor \.json/.test(formatErrors(loaded.errors)))
  })

  test('a file that is not there is one error', async () => {
    const loaded = await loadConfig(path.join(folder, 'none.yaml'), {})
    assert.ok(!loaded.ok && /cannot be read: ENOENT/.test(formatErrors(loaded.errors)))
  })

  test('a .json file is JSON: comments and single quotes are refused', () => {
    for (const text of ['{\n // x\n}', "{\n 'a': 1}", '{\n "a": 1,\n}', '']) {
      const parsed = parseConfigText(text, { format: 'json', env: {} })
      assert.match(errorLines(parsed).join(), /line \d\): not valid JSON/)
    }
  })

  test('an unquoted text in JSON is found on its line', () => {
    const parsed = parseConfigText('{\n "a": 1,\n "b": hello,\n "c": 2\n}', { format: 'json', env: {} })
    assert.match(errorLines(parsed).join(), /line 3\): not valid JSON/)
  })

  test('a byte order mark is passed over', async () => {
    const loaded = await loadConfig(await write('bom.json', `\uFEFF${JSON.stringify(MINIMAL)}`), {})
    assert.ok(loaded.ok)
  })

  for (const key of ['__proto__', 'constructor', 'toString'])
    test(`${key} is an unknown key like any other`, () => {
      const text = `{"${key}": {"polluted": true}, ${JSON.stringify(MINIMAL).slice(1)}`
      const parsed = parseConfigText(text, { format: 'json', env: {} })
      assert.deepEqual(errorLines(parsed), [`${key} (line 1): unknown key`])
      assert.equal(Reflect.get({}, 'polluted'), undefined)
    })

  test('a duplicate key in JSON is an error with its line, tabs and escapes are not', () => {
    const text = '{\n\t"server": {\n\t\t"bind": "\\u0061\\/",\n\t\t"bind": "b"\n\t}\n}'
    const parsed = parseConfigText(text, { format: 'json', env: {} })
    assert.match(errorLines(parsed).join('\n'), /server\.bind \(line 4\): written a second time, first on line 3/)
  })

  test('a section heading with nothing below it is an empty section', () =>
    assert.equal(acceptedConfig(parseYaml(`${withServer('  tls:\n')}smtp:\n`)).smtp.port, 587))

  test('merge keys and aliases work as in other YAML tools', () => {
    const config = acceptedConfig(
      parseYaml(
        `${withServer('')}retention: { enabled: false }\ndns:\n  resolvers: &r [192.0.2.1]\nchallenges:\n  dns01: &d\n    resolvers: *r\n    max_retries: 9\n  dnspersist01:\n    <<: *d\n    max_retries: 1\n`,
      ),
    )
    assert.deepEqual(config.challenges.dnspersist01.resolvers, ['192.0.2.1'])
    assert.equal(config.challenges.dnspersist01.max_retries, 1)
  })

  test('a key with a dot in its name is not a path', () =>
    assert.deepEqual(errorLines(parseTree({ 'ca.backend': 'hsm' })).length, 1))
})

describe('comments and the open part of ca', () => {
  test('_comment is taken at the top, under ca and in a hook', () => {
    const config = acceptedConfig(
      parseTree({
        _comment: ['one', 'two'],
        ca: { _comment: 'three' },
        hooks: { registered: [{ _comment: 'four', class: './a.js', enabled: false }] },
      }),
    )
    assert.equal('_comment' in config.ca, false)
  })

  test('_comment may say ${VAR}: nothing is replaced there', () => {
    const comment = 'the secret comes from ${SECRET}, which systemd sets'
    acceptedConfig(
      parseTree({ _comment: [comment, '${UNSET}'], hooks: { registered: [{ _comment: comment, class: './a.js' }] } }),
    )
  })

  test('an unknown key under ca is an error unless an ext: backend reads it', () => {
    assert.deepEqual(errorLines(parseTree({ ca: { default_validity: 1 } })).length, 1)
    const config = acceptedConfig(parseTree({ ca: { backend: 'ext:./pki.js', vault: 'x' } }))
    assert.deepEqual(config.ca.extension_settings, { vault: 'x' })
  })
})

test('any text at all gives a result and no exception', () => {
  const piece = fc.oneof(
    fc.string(),
    fc.constantFrom('\n  ', 'port: ', '${A}', '- ', '&a ', ': ', '!!int ', '\t', ...words`server: { } [ *a " <<`),
  )
  forAnyInput(
    fc.array(piece, { maxLength: 30 }),
    fc.constantFrom('yaml' as const, 'json' as const),
    (pieces, format) => {
      const parsed = parseConfigText(pieces.join(''), { format, env: {} })
      assert.ok(parsed.ok || parsed.errors.length > 0)
    },
  )
})

test('any tree in any section gives a result and no exception', () => {
  const section = fc.constantFrom(...words`server database ca hooks security dns challenges __proto__ constructor`)
  forAllIn(propertyRuns(60), section, fc.jsonValue(), fc.jsonValue(), (name, value, inner) => {
    const root = { [name]: value, logging: inner, ct_logging: { logs: [inner] }, ca: { profiles: { x: inner } } }
    const parsed = parseConfigText(JSON.stringify(root), { format: 'json', env: {} })
    assert.ok(parsed.ok || parsed.errors.every((error) => error.message !== ''))
  })
})

describe('database.sslmode', () => {
  const modeOf = (database: Record<string, string | string[]>) =>
    acceptedConfig(parseTree({ database })).database.sslmode

  test('is prefer where nothing crosses a network', () => {
    for (const host of ['localhost', '127.0.0.1', '127.1.2.3', '::1', '/run/postgresql'])
      assert.equal(modeOf({ host }), 'prefer', host)
  })

  test('is verify-full for any other host, unless it is written', () => {
    for (const host of ['db', 'db.corp.example', '192.0.2.1', '2001:db8::1', '127.example'])
      assert.equal(modeOf({ host }), 'verify-full', host)
    assert.equal(modeOf({ host: 'db.corp.example', sslmode: 'prefer' }), 'prefer')
    assert.equal(modeOf({ host: ['localhost', 'db.corp.example'] }), 'verify-full')
    assert.equal(modeOf({ host: 'localhost', sslrootcert: '/etc/chancery/db-ca.pem' }), 'verify-full')
  })

  test('has to check a certificate where database.sslrootcert names a CA', () => {
    const database = { sslrootcert: '/etc/chancery/db-ca.pem', sslmode: 'require' }
    const parsed = parseTree({ database })
    assert.ok(!parsed.ok)
    assert.match(String(parsed.errors[0]?.message), /sslmode require checks no certificate; must be verify-ca or/)
  })
})
