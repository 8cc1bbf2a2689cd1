/** The pure parts of the console's pages: commands, fields, files, words. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { endOfDayIn, instantIn, linesOf, wholeDaysIn } from '../../../src/console/format.ts'
import {
  clientCommands,
  directoryUrlOf,
  firstName,
  handOverText,
  shellQuoted,
} from '../../../src/console/pages/client-commands.ts'
import {
  fieldsOf,
  numberOf,
  readCsrFile,
  readCsrText,
  readJson,
  withField,
} from '../../../src/console/pages/profile-fields.ts'
import { explainFailure } from '../../../src/domain/failure-advice.ts'

describe('commands of ACME clients', () => {
  const NASTY = `it's "$(touch /tmp/x)" \`id\` \\ {x} # %`
  const commands = clientCommands({ directoryUrl: 'https://ca.test/directory', kid: NASTY, hmacKey: 'a-_b' })
  const textOf = (client: string) => commands.find((one) => one.client === client)?.text ?? ''

  test('a shell reads the kid as it is', () => {
    assert.equal(execFileSync('sh', ['-c', `printf %s ${shellQuoted(NASTY)}`], { encoding: 'utf8' }), NASTY)
    for (const client of ['certbot', 'lego', 'acme.sh', 'dehydrated'])
      assert.ok(textOf(client).includes(shellQuoted(NASTY)), client)
  })

  test('a Caddyfile has a kid as it is, or there is none', () => {
    assert.equal(textOf('Caddy'), '')
    const plain = "it's `id` $(x) } # %"
    const text = clientCommands({ directoryUrl: 'https://ca.test/directory', kid: plain }).find(
      ({ client }) => client === 'Caddy',
    )?.text
    assert.ok(text?.includes(`key_id "${plain}"\n`))
    for (const kid of ['ends with \\', '{$HOME}', 'a" b'])
      assert.ok(!clientCommands({ directoryUrl: '', kid }).some(({ client }) => client === 'Caddy'), kid)
  })

  test('a word stands in the place of a key that is not shown, and the example in that of a name', () => {
    const [certbot] = clientCommands({ directoryUrl: 'https://ca.test/directory', kid: 'k' })
    assert.match(certbot?.text ?? '', /--eab-hmac-key='HMAC_KEY'(?:.|\n)*-d 'host\.example\.com'$/)
  })

  test('the name is the first that is allowed; for a pattern, one below it', () => {
    assert.equal(firstName(['10.0.0.0/8', '192.0.2.7', '2001:db8::7', '*.a.test', 'b.test']), 'host.a.test')
    assert.equal(firstName(['10.0.0.0/8', 'b.test']), 'b.test')
    assert.equal(firstName([]), undefined)
  })

  test('YAML reads the kid as it is', () => {
    assert.equal(parse(textOf('Traefik')).certificatesResolvers.chancery.acme.eab.kid, NASTY)
    const [secret, issuer] = parseAllDocuments(textOf('cert-manager')).map((one) => one.toJS())
    assert.equal(secret.stringData['hmac-key'], 'a-_b')
    assert.equal(issuer.spec.acme.externalAccountBinding.keyID, NASTY)
    assert.equal(parse(JSON.stringify(issuer)).spec.acme.server, 'https://ca.test/directory')
  })

  test('the directory is put together from the settings', () => {
    const settings = [
      { key: 'server.external_url', value: 'https://ca.test/x/' },
      { key: 'api.base_path', value: null },
      { key: 'acme.paths.directory', value: '/directory' },
    ]
    assert.equal(directoryUrlOf(settings), 'https://ca.test/x/directory')
  })
})

describe('a hand-over sheet', () => {
  const root = { subject: 'CN=Root', fingerprint: 'ab'.repeat(32), pem: '-----BEGIN CERTIFICATE-----\nMAA=\n' }
  const sheet = {
    title: 'Certificates for Team A',
    directoryUrl: 'https://ca.test/directory',
    kid: 'team-a',
    hmacKey: 'secret-key',
    roots: [root],
    rootsUrl: null,
    commands: [{ client: 'lego', place: 'shell', text: 'lego run\n' }],
  }

  test('has the root with its fingerprint, the directory, the credential and the commands', () => {
    const text = handOverText(sheet)
    for (const part of [root.pem.trim(), root.fingerprint, sheet.directoryUrl, 'team-a', 'secret-key', 'lego run'])
      assert.ok(text.includes(part), part)
  })

  test('says what it does not have', () => {
    const text = handOverText({ ...sheet, hmacKey: undefined, roots: [] })
    assert.match(text, /HMAC key: +not in this text; it was shown once/)
    assert.match(text, /Ask the operator for it\./)
  })
})

describe('a request from a file', () => {
  test('PEM and DER give the same base64', () => {
    const der = Uint8Array.of(0x30, 0x03, 0x02, 0x01, 0xff)
    const base64 = Buffer.from(der).toString('base64')
    const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${base64}\n-----END CERTIFICATE REQUEST-----\n`
    assert.deepEqual(readCsrFile(der), { ok: true, csr: base64 })
    assert.deepEqual(readCsrText(pem), { ok: true, csr: base64 })
    assert.deepEqual(readCsrFile(new TextEncoder().encode(pem)), { ok: true, csr: base64 })
  })

  test('a key, a certificate and anything else are refused in words', () => {
    const refusal = (text: string) => {
      const read = readCsrText(text)
      return read.ok ? '' : read.message
    }
    assert.match(refusal('-----BEGIN EC PRIVATE KEY-----\nx'), /This is a key/)
    assert.match(refusal('-----BEGIN CERTIFICATE-----\nx'), /This is a certificate/)
    assert.match(refusal('hello world!'), /neither PEM nor base64/)
    assert.match(refusal('  '), /no request/)
    assert.match(refusal('A'.repeat(70_000)), /longer/)
  })
})

describe('fields of a CSR profile', () => {
  test('are made from the schema, with their kind', () => {
    const fields = fieldsOf({
      properties: {
        san_maximum: { type: 'integer', minimum: -1 },
        reuse_key: { type: 'boolean' },
        san_regex: { type: 'string', format: 'regex' },
        san_types: { type: 'array', items: { type: 'string', enum: ['DNS_NAME', 'URI'] } },
        depth_base_domains: { type: 'array', items: { type: 'string' } },
        authorized_keys: {
          type: 'object',
          propertyNames: { anyOf: [{ enum: ['RSA'] }] },
          additionalProperties: { type: 'integer' },
        },
        later_field: { description: 'Of a later release.', type: 'object' },
      },
    })
    assert.deepEqual(
      fields.map(({ kind, options }) => [kind, ...options]),
      [['number'], ['flag'], ['pattern'], ['choices', 'DNS_NAME', 'URI'], ['texts'], ['sizes', 'RSA'], ['json']],
    )
    assert.deepEqual([fields.at(-1)?.label, fields.at(-1)?.help], ['later_field', 'Of a later release.'])
  })

  test('an empty field leaves the data', () => {
    assert.deepEqual(withField({ a: 1, b: 2 }, 'a', undefined), { b: 2 })
    assert.deepEqual([numberOf(' '), numberOf('−1'), numberOf('x')], [undefined, -1, 'x'])
    assert.deepEqual([linesOf(' \n'), linesOf(' a \n\nb')], [undefined, ['a', 'b']])
    assert.deepEqual(
      [readJson('[]').ok, readJson('{').ok, readJson('{"a":1}')],
      [false, false, { ok: true, data: { a: 1 } }],
    )
  })
})

describe('a failure in words', () => {
  test('has the names, what was said, and what helps', () => {
    const found = explainFailure({
      kind: 'challenge.on_failure',
      data: { identifier_value: 'a.test', error: 'no answer', problem: 'connection', authorization_id: 'x' },
    })
    assert.deepEqual([found.names, found.detail, found.authorizationId], [['a.test'], 'no answer', 'x'])
    assert.match(found.advice, /firewall/)
    const refused = explainFailure({
      kind: 'order.rejected',
      data: {
        error: { type: 'urn:ietf:params:acme:error:rejectedIdentifier', detail: 'not allowed' },
        rejected_identifiers: [{ type: 'dns', value: 'b.test' }],
      },
    })
    assert.deepEqual([refused.names, refused.detail], [['b.test'], 'not allowed'])
  })

  test('a host that answers with something else is no matter of the account', () => {
    const of = (type: string) =>
      explainFailure({ kind: 'challenge.on_failure', data: { challenge_type: type, problem: 'unauthorized' } }).advice
    for (const [type, advice] of [
      ['http-01', /did not put the file there, or another server answers/],
      ['dns-01', /record is not there/],
      ['dns-persist-01', /record is not there/],
      ['tls-alpn-01', /port 443/],
      ['ext:own', /evidence/],
    ] as const)
      assert.match(of(type), advice)
    const account = explainFailure({
      kind: 'order.rejected',
      data: { error: { type: 'unauthorized' }, rejected_identifiers: [], attempted_identifiers: [] },
    })
    assert.match(account.advice, /The account may not do this/)
  })

  // RFC 8555 §6.7.1: the detail then says only how many there are.
  test('has what the subproblems say', () => {
    const error = {
      detail: '2 violations; see the subproblems',
      subproblems: [{ detail: 'one' }, { detail: 'two' }, 7],
    }
    assert.equal(explainFailure({ kind: 'order.csr_refused', data: { error } }).detail, 'one; two')
  })

  test('is shown whatever its data is', () => {
    for (const data of [
      {},
      { error: { subproblems: 7 } },
      { error: 7, identifiers: [null, 7, {}] },
      { error: null, problem: {} },
    ])
      assert.equal(typeof explainFailure({ kind: 'later.kind', data }).title, 'string')
  })
})

describe('a day in a field', () => {
  test('is whole: what ends with it ends at its end, and other times stay', () => {
    assert.equal(endOfDayIn('utc', '2026-12-31'), '2026-12-31T23:59:59.999Z')
    assert.deepEqual(
      wholeDaysIn('utc', { since: '2026-11-26', until: '2026-11-26', created_before: '2026-12-31', action: 'x' }),
      {
        since: '2026-11-26T00:00:00.000Z',
        until: '2026-11-26T23:59:59.999Z',
        created_before: '2027-01-01T00:00:00.000Z',
        action: 'x',
      },
    )
    const instant = { issued_before: '2026-11-26T10:00:00Z', until: 'soon' }
    assert.deepEqual(wholeDaysIn('utc', instant), instant)
    assert.equal(endOfDayIn('utc', '2026-02-31'), '2026-02-31')
  })

  test('is a day of the browser where times are shown in its zone, also on the day when summer ends', () => {
    const before = process.env['TZ']
    process.env['TZ'] = 'Europe/Berlin'
    try {
      assert.deepEqual(wholeDaysIn('local', { since: '2026-10-25', until: '2026-10-25' }), {
        since: '2026-10-24T22:00:00.000Z',
        until: '2026-10-25T22:59:59.999Z',
      })
      assert.equal(instantIn('local', '2026-07-01T22:30:00Z'), '2026-07-02 00:30')
      assert.equal(instantIn('utc', '2026-07-01T22:30:00Z'), '2026-07-01 22:30')
    } finally {
      if (before === undefined) delete process.env['TZ']
      else process.env['TZ'] = before
    }
  })
})
