/** The table of questions and the plan, as plain data: what is asked, and what follows from the answers. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { parseConfig } from '../../signer/config.ts'
import { parseConfigText } from '../../src/config/load.ts'
import { CLOSED, PATHS } from '../../src/installation/places.ts'
import { type Given, renderAnswers, resolveAnswers } from '../../src/setup/answers.ts'
import type { Facts } from '../../src/setup/facts.ts'
import { makePlan } from '../../src/setup/plan/plan.ts'
import type { Step, Work } from '../../src/setup/plan/step.ts'
import { type Answers, NOT_ASKED, QUESTIONS } from '../../src/setup/questions.ts'
import { readDocument } from '../../src/shared/config-file/document.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const text = (name: string) => readFileSync(path.join(ROOT, 'deploy', name), 'utf8')

const FACTS: Facts = {
  canStart: true,
  users: [],
  unitsInstalled: false,
  postgres: 17,
  postgresPorts: [5432],
  openPorts: [],
  softhsm: '/usr/lib/softhsm/libsofthsm2.so',
  hasOpenssl: true,
  programs: { service: ['/usr/bin/node', '/srv/main.js'], signer: ['/usr/bin/node', '/srv/start.cjs'] },
  deploy: Object.fromEntries(
    ['systemd/chancery.service', 'systemd/chancery-signer.service', 'proxy/nginx.conf', 'proxy/haproxy.cfg'].map(
      (name) => [name, text(name)],
    ),
  ),
  files: {},
}

const FEWEST = { url: 'https://acme.corp.example', admin_email: 'ops@corp.example' }
const SECRET = 'a secret of nobody'
const MAIL = { mail_host: 'mail.corp.example', mail_from: 'ca@corp.example', mail_user: 'ca', mail_password: SECRET }
const REMOTE = { database: 'remote', database_hosts: 'db1.corp.example, db2.corp.example', database_password: SECRET }

function resolved(given: Given, facts = FACTS): Answers {
  const result = resolveAnswers({ ...FEWEST, ...given }, facts)
  assert.ok('answers' in result, 'errors' in result ? result.errors.join('\n') : '')
  return result.answers
}

/** A CA certificate whose name constraints permit this domain alone. */
function issuerOf(domain: string): string {
  const extension = `nameConstraints=critical,permitted;DNS:${domain}`
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc', '-keyout', '/dev/null']
  const words = ['req', '-x509', ...key, '-subj', '/CN=Issuer', '-addext', extension]
  return execFileSync('openssl', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

const errorsOf = (given: Given, facts = FACTS) => {
  const result = resolveAnswers(given, facts)
  return 'errors' in result ? result.errors : []
}

const planOf = (given: Given, facts = FACTS, start = true) =>
  makePlan({ answers: resolved(given, facts), facts, given: undefined, fresh: { token: 't'.repeat(43) }, start })

const fileIn = (steps: readonly Step[], file: string): string => {
  const found = steps.map(({ work }) => work).find((work) => work.kind === 'file' && work.at.path === file)
  return found?.kind === 'file' ? found.text : ''
}

describe('questions', () => {
  test('each key of a file of answers has one question, and an answer where it is not asked', () => {
    assert.equal(new Set(QUESTIONS.map(({ key }) => key)).size, QUESTIONS.length)
    for (const { key } of QUESTIONS) assert.notEqual(NOT_ASKED[key], undefined, key)
  })

  test('each is explained in sentences, and a choice by every word that it takes', () => {
    for (const { key, about, takes } of QUESTIONS) {
      assert.match(about, /[.]$/, key)
      for (const [word, meaning] of Object.entries(takes.choices ?? {})) {
        assert.ok(takes.schema.safeParse(word).success, `${key}: ${word}`)
        assert.notEqual(meaning, '', `${key}: ${word}`)
      }
    }
  })

  test('a slash behind the URL is no mistake', () => {
    assert.equal(resolved({ url: 'https://acme.corp.example/' }).url, 'https://acme.corp.example')
  })

  test('a network with bits behind its prefix is refused before it is in a certificate', () => {
    assert.match(errorsOf({ ...FEWEST, networks: '10.0.0.5/8' }).join(), /networks: must be a list of networks/)
  })

  test('the port of PostgreSQL is that of the cluster which runs here', () => {
    assert.equal(resolved({}, { ...FACTS, postgresPorts: [5433] }).database_port, 5433)
    assert.equal(resolved({}, { ...FACTS, postgresPorts: [] }).database_port, 5432)
  })

  test('a domain that the issuer of a former run cannot certify is refused', () => {
    const facts = { ...FACTS, files: { [PATHS.issuer]: issuerOf('corp.example') } }
    assert.deepEqual(errorsOf({ ...FEWEST, domains: 'corp.example, a.corp.example' }, facts), [])
    const [refusal = ''] = errorsOf({ ...FEWEST, domains: 'corp.example, other.example' }, facts)
    assert.match(refusal, /domains: has other\.example, which the name constraints of .* leave out/)
  })

  test('the URL and the address of the administrator are enough', () => {
    const answers = resolved({})
    assert.deepEqual(answers.domains, ['corp.example'])
    assert.equal(answers.issuer_name, 'CN=corp.example Issuing CA 1')
  })

  test('all that is missing or wrong is named at once, by its key', () => {
    const errors = errorsOf({ url: FEWEST.url, domains: '*.corp.example', port: 70_000, database: 'remote' })
    assert.deepEqual(
      errors.map((error) => error.split(':')[0]),
      ['port', 'domains', 'database_hosts', 'database_password', 'admin_email'],
    )
  })

  for (const [why, given, expected] of [
    ['an address as URL', { url: 'https://192.0.2.1' }, /url: takes a name/],
    ['a path in the URL', { url: 'https://ca.corp.example/acme' }, /url: must be https/],
    ['a user in the URL', { url: 'https://me:secret@ca.corp.example' }, /url: must be https/],
    ['a query in the URL', { url: 'https://ca.corp.example?x=1' }, /url: must be https/],
    ['a fragment in the URL', { url: 'https://ca.corp.example#x' }, /url: must be https/],
    ['a query in the URL of lists', { ...FEWEST, crl_url: 'http://ca.corp.example?x' }, /crl_url: must be/],
    ['a short passphrase', { ...FEWEST, root_passphrase: 'short' }, /root_passphrase: has fewer than 12/],
    [
      'its own certificate for a name outside',
      { ...FEWEST, tls: 'own', domains: 'other.example' },
      /has to cover acme/,
    ],
    ['one port twice', { ...FEWEST, admin_port: 8443 }, /admin_port: is the port of the service/],
    ['a name of one label', { url: 'https://acme' }, /url: takes a whole name with its domain/],
    [
      'a name that no certificate can have',
      { ...FEWEST, issuer_name: 'CN=a,XX=b' },
      /issuer_name: must be a name .*"XX=b"/,
    ],
    ['a country that is none', { ...FEWEST, root_name: 'CN=a,C=Germany' }, /root_name: must be .*country code/],
    [
      'a library of a token that is not there',
      { ...FEWEST, key: 'token', token: 'usb', token_library: '/usr/lib/none.so' },
      /token_library: is not on this host/,
    ],
    ['a line end in a name', { ...FEWEST, issuer_name: 'CN=a\nb' }, /issuer_name: must be a name/],
  ] as const)
    test(`${why} is refused`, () => assert.match(errorsOf(given).join('\n'), expected))

  test('a port that another program has is refused before anything is done; that of the service itself is not', () => {
    const taken: Facts = { ...FACTS, openPorts: [80, 8443, 8444] }
    const errors = errorsOf({ ...FEWEST, tls: 'own', port: 8443 }, taken).join('\n')
    for (const key of ['port', 'crl_url', 'admin_port']) assert.match(errors, new RegExp(`^${key}: is taken`, 'm'))
    const files = { [PATHS.config]: 'server:\n  port: 8443\nadmin_api:\n  listen:\n    port: 8444\n' }
    assert.deepEqual(errorsOf(FEWEST, { ...taken, files }), [])
  })

  test('names outside ASCII are taken as DNS has them', () => {
    const { url, domains } = resolved({ url: 'https://ACME.büro.example', domains: 'büro.example' })
    assert.equal(url, 'https://acme.xn--bro-hoa.example')
    assert.deepEqual(domains, ['xn--bro-hoa.example'])
    assert.equal(resolved({ crl_url: 'http://crl.büro.example' }).crl_url, 'http://crl.xn--bro-hoa.example')
  })

  test('what is missing on a host is said with the line that brings it', () => {
    const bare: Facts = { ...FACTS, postgres: undefined, softhsm: undefined }
    const errors = errorsOf({ ...FEWEST, key: 'token', token_library: '/lib/x.so' }, bare).join('\n')
    assert.match(errors, /database: .*apt install postgresql/)
    assert.match(errors, /token: .*apt install softhsm2/)
  })

  test('a file of answers leads to the same answers, and holds no secret', () => {
    const answers = resolved({ ...MAIL, ...REMOTE, root_passphrase: SECRET })
    const written = renderAnswers(answers, FACTS, {})
    assert.doesNotMatch(written, new RegExp(SECRET))
    const { value } = readDocument(written, 'yaml')
    const secrets = { mail_password: SECRET, database_password: SECRET, root_passphrase: SECRET }
    assert.deepEqual(resolved({ ...(value as Given), ...secrets }), answers)
  })

  test('answers that are not asked for again are kept', () => {
    const issued: Facts = { ...FACTS, files: { [PATHS.issuer]: '' } }
    const former = { root_name: 'CN=Former Root' }
    assert.match(renderAnswers(resolved({}, issued), issued, former), /^root_name: "CN=Former Root"$/m)
  })
})

const KINDS: Readonly<Record<string, Given>> = {
  'behind a proxy': {},
  'own certificate': { tls: 'own', networks: '10.0.0.0/8 2001:db8::/32' },
  'certificate of the operator': { tls: 'files', tls_certificate: '/etc/ssl/a.pem', tls_key: '/etc/ssl/a.key' },
  'database elsewhere, mail': { ...REMOTE, ...MAIL, database_ca: '/etc/ssl/db.pem' },
  'SoftHSM, open, no list': { key: 'token', accounts: 'open', crl_url: 'none', console: false },
  'token on the network': {
    key: 'token',
    token: 'network',
    token_library: '/etc/hostname',
    token_label: 'ca',
    token_address: '192.0.2.9',
    token_pin: SECRET,
  },
}

describe('the plan', () => {
  for (const [kind, given] of Object.entries(KINDS)) {
    test(`${kind}: both configurations are valid`, () => {
      const { steps } = planOf(given)
      const env = { DB_PASSWORD: SECRET, SMTP_PASSWORD: SECRET }
      const config = parseConfigText(fileIn(steps, PATHS.config), { format: 'yaml', env })
      assert.deepEqual(config.ok ? [] : config.errors, [])
      assert.equal(parseConfig(fileIn(steps, PATHS.signerConfig), 'signer.yaml').issuers.length, 1)
    })

    test(`${kind}: no secret is in the words of a program, nor in a file that others read`, () => {
      const { steps } = planOf({ ...given, root_passphrase: SECRET })
      for (const { work, title } of steps) assert.doesNotMatch(openTextOf(work), new RegExp(SECRET), title)
    })
  }

  test('what YAML reads otherwise without quotes comes through as it was answered', () => {
    const mail = { ...MAIL, mail_host: '127.0.0.1', mail_from: '&ca@corp.example' }
    const database = { ...REMOTE, database_name: 'null', database_user: 'true' }
    for (const admin_email of ['*ops@corp.example', '!ops@corp.example', '{ops}@corp.example', '#ops@corp.example']) {
      const text = fileIn(planOf({ ...mail, ...database, admin_email }).steps, PATHS.config)
      const config = parseConfigText(text, { format: 'yaml', env: { DB_PASSWORD: SECRET, SMTP_PASSWORD: SECRET } })
      assert.ok(config.ok, JSON.stringify(config))
      const { smtp, database: to, admin_api } = config.config
      assert.deepEqual(
        [smtp.from_address, to.database, to.user, admin_api.initial_admin_email],
        ['&ca@corp.example', 'null', 'true', admin_email],
      )
    }
  })

  test("the issuer's certificate is limited to what may be issued", () => {
    const words = wordsOf(planOf({ networks: '10.0.0.0/8' }).steps, 'sign-request')
    assert.match(words, /--permit-dns corp\.example --permit-ip 10\.0\.0\.0\/8/)
    assert.match(wordsOf(planOf({}).steps, 'sign-request'), /--exclude-ip 0\.0\.0\.0\/0 --exclude-ip ::\/0/)
    assert.doesNotMatch(wordsOf(planOf({ name_constraints: 'no' }).steps, 'sign-request'), /--(?:permit|exclude)/)
  })

  test('what setup writes has no warning, for which doctor --strict would fail each day', () => {
    for (const given of [{}, MAIL, { tls: 'proxy' }, { accounts: 'open' }, { console: 'no' }]) {
      const text = fileIn(planOf(given).steps, PATHS.config)
      const read = parseConfigText(text, { format: 'yaml', env: { SMTP_PASSWORD: SECRET }, mode: 0o640 })
      assert.deepEqual(read.ok && read.warnings, [], JSON.stringify(given))
    }
  })

  test('a request for another CA is where the plan ends', () => {
    const { steps, endsWithRequest } = planOf({ issuer: 'request' })
    assert.equal(endsWithRequest, true)
    assert.equal(fileIn(steps, PATHS.config), '')
  })

  test('where nothing can be started, nothing is', () => {
    const started = ({ steps }: { steps: readonly Step[] }) =>
      steps.filter(({ work }) => work.kind === 'restart').length
    assert.equal(started(planOf({})), 2)
    assert.equal(started(planOf({}, FACTS, false)), 0)
    assert.equal(started(planOf({}, { ...FACTS, canStart: false })), 0)
  })

  test("a checkout's units start the programs of the checkout", () => {
    const unit = fileIn(planOf({}).steps, '/etc/systemd/system/chancery.service')
    assert.match(unit, /^ExecStart=\/usr\/bin\/node \/srv\/main\.js -c \/etc\/chancery\/config\.yaml serve$/m)
    const installed = planOf({}, { ...FACTS, unitsInstalled: true }).steps
    assert.equal(fileIn(installed, '/etc/systemd/system/chancery.service'), '')
  })

  test('the secret of administrators outlives a repetition', () => {
    const config = fileIn(planOf({}).steps, PATHS.config)
    const facts: Facts = { ...FACTS, files: { [PATHS.config]: config } }
    const again = makePlan({ answers: resolved({}), facts, given: undefined, fresh: { token: 'other' }, start: true })
    assert.equal(fileIn(again.steps, PATHS.config), config)
  })

  test('the key of the audit log has a file of its own; an installation that made it of its secret keeps it so', () => {
    const auditKey = (facts: Facts) => {
      const { steps } = planOf({}, facts)
      const config = parseConfigText(fileIn(steps, PATHS.config), { format: 'yaml', env: {} })
      const isMade = steps.some(({ work }) => work.kind === 'random' && work.at.path === PATHS.auditKey)
      return [config.ok && config.config.admin_api.audit_key_file, isMade]
    }
    assert.deepEqual(auditKey(FACTS), [PATHS.auditKey, true])
    const before = fileIn(planOf({}).steps, PATHS.config)
    assert.deepEqual(auditKey({ ...FACTS, files: { [PATHS.config]: before } }), [PATHS.auditKey, true])
    const older = before.replace(/^ {2}audit_key_file: .*\n/m, '')
    assert.deepEqual(auditKey({ ...FACTS, files: { [PATHS.config]: older } }), [null, false])
  })

  test('the audit log is looked at before the first entry of the run', () => {
    const titles = planOf({}).steps.map(({ title }) => title)
    const at = (title: string) => titles.indexOf(title)
    assert.ok(at('Bring the database to the schema of this release') < at('See that the audit log is whole'))
    assert.ok(at('See that the audit log is whole') < at('The first administrator'))
  })

  test('CAA records count where setup was told the name that they have, and else the file says that they do not', () => {
    const acme = (given: Given) => {
      const config = parseConfigText(fileIn(planOf(given).steps, PATHS.config), { format: 'yaml', env: {} })
      assert.ok(config.ok)
      const { caa_enforce, caa_identities } = config.config.acme
      return { caa_enforce, caa_identities }
    }
    assert.deepEqual(acme({}), { caa_enforce: false, caa_identities: [] })
    assert.deepEqual(acme({ caa_identity: 'ca.corp.example' }), {
      caa_enforce: true,
      caa_identities: ['ca.corp.example'],
    })
  })

  test('every method that needs nothing of the operator is offered, so a wildcard can be had', () => {
    const config = parseConfigText(fileIn(planOf({}).steps, PATHS.config), { format: 'yaml', env: {} })
    assert.deepEqual(config.ok && config.config.challenges.enabled, ['http-01', 'dns-01', 'tls-alpn-01'])
  })

  test('the second instance of a proxy example has not the port of the console', () => {
    for (const name of ['nginx.conf', 'haproxy.cfg'])
      assert.doesNotMatch(text(`proxy/${name}`), new RegExp(`:${NOT_ASKED.admin_port}\\b`), name)
  })

  test('examples for proxies have the names of the installation', () => {
    for (const proxy of ['nginx', 'haproxy']) {
      const example = fileIn(
        planOf({ proxy, port: 9443, crl_url: 'http://crl.corp.example' }).steps,
        PATHS.proxyExample,
      )
      assert.match(example, /127\.0\.0\.1:9443/)
      assert.match(example, /acme\.corp\.example/)
      assert.match(example, /\/etc\/chancery\/proxy\.pem/)
    }
  })
})

const openTextOf = (work: Work): string => {
  if (work.kind === 'run') return work.command.words.join(' ')
  return work.kind === 'file' && work.at.mode !== CLOSED ? work.text : ''
}

const wordsOf = (steps: readonly Step[], command: string): string =>
  steps
    .map(({ work }) => (work.kind === 'run' ? work.command.words.join(' ') : ''))
    .find((words) => words.includes(` ${command} `)) ?? ''
