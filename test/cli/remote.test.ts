/** `chancery --server URL …`: administration from another machine. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { HOST_COMMANDS } from '../../src/cli/host/host-commands.ts'
import { localProgram } from '../../src/cli/program.ts'
import { remoteProgram } from '../../src/cli/remote/remote-program.ts'
import type { Program } from '../../src/shared/command-line.ts'
import { createAdministrator, signIn } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { type CommandResult, runChancery } from '../support/commands.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')

test('api has every operation', async () => {
  const ids = ENDPOINTS.map(({ id }) => id)
  const usages = (await remoteProgram(['api'])).commands.map(({ usage }) => usage.split(' ')[1])
  for (const id of ids) assert.ok(usages.includes(id), id)
})

test('an option is a switch in every command or in none, as the command line is read once for all', async () => {
  for (const asked of [['api'], []]) {
    const kinds = new Map<string, boolean>()
    for (const { options } of (await remoteProgram(asked)).commands)
      for (const [name, { kind }] of Object.entries(options ?? {})) {
        assert.equal(kinds.get(name) ?? kind === 'switch', kind === 'switch', name)
        kinds.set(name, kind === 'switch')
      }
  }
})

test('every option says more than what kind of value it takes', async () => {
  const unexplained = (await remoteProgram([])).commands.flatMap(({ usage, options }) =>
    Object.entries(options ?? {}).flatMap(([name, { sentence }]) =>
      /^(?:A text|A number|true or false|A UUID|A time, or a date|Yes)(?:;|$)/.test(sentence)
        ? [`${usage} --${name}`]
        : [],
    ),
  )
  assert.deepEqual(unexplained, [])
})

describe('from another machine', () => {
  const { service, sql } = administered(() => sharedService('small pages'))
  const folder = temporaryFolder()
  let tokens: string
  let password: string
  before(async () => {
    tokens = path.join(folder, 'chancery', 'tokens.json')
    password = await createAdministrator(service.database, 'ann')
    const { code, stderr } = await remote(['login', '--username', 'ann'], { input: `${password}\n` })
    assert.equal(code, 0, stderr)
  })

  function remote(
    words: string[],
    {
      input = '',
      env = {},
      server = service.baseUrl,
    }: { input?: string; env?: Record<string, string>; server?: string } = {},
  ): Promise<CommandResult> {
    if (input === '') return runChancery(['--server', server, ...words], { XDG_CONFIG_HOME: folder, ...env })
    const child = spawn(process.execPath, [CLI, '--server', server, ...words], {
      env: { ...process.env, XDG_CONFIG_HOME: folder, ...env },
    })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.stdin.end(input)
    return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })))
  }

  // biome-ignore lint/suspicious/noExplicitAny: replies of any shape
  async function json(...words: string[]): Promise<any> {
    const { code, stdout, stderr } = await remote([...words, '--json'])
    assert.equal(code, 0, stderr)
    return JSON.parse(stdout)
  }

  async function refused(words: string[], code: number, sentence: RegExp, options = {}): Promise<void> {
    const got = await remote(words, options)
    assert.equal(got.code, code, got.stdout)
    assert.match(got.stderr, sentence)
  }

  test('login keeps a token that only its owner can read', async () => {
    assert.equal(statSync(tokens).mode & 0o777, 0o600)
    assert.deepEqual(Object.keys(JSON.parse(readFileSync(tokens, 'utf8'))), [`${service.baseUrl}/api`])
    assert.equal((await json('me', 'show')).username, 'ann')
  })

  test('users are made, listed, changed and deleted by their names', async () => {
    const made = await remote(['users', 'create', 'bob', '--email', 'bob@example.com'])
    assert.match(made.stdout, /^password +\S{33}$/m)
    assert.match(
      (await remote(['users', 'list'])).stdout,
      /^id +username +email +role +scope +enabled\n(?:.*\n)*\S+ +bob +bob@example.com +auditor +- +true\n/,
    )
    assert.equal((await json('users', 'update', 'bob', '--enabled', 'false')).enabled, false)
    assert.equal((await remote(['users', 'delete', 'bob'])).code, 0)
    await refused(['users', 'show', 'bob'], 1, /there is no user "bob"/)
  })

  test('a list comes in pages, or whole', async () => {
    const page = await remote(['audit', 'list', '--action', 'auth.login'])
    for (const _ of [1, 2, 3]) await remote(['login', '--username', 'ann'], { input: password })
    assert.match((await remote(['audit', 'list'])).stderr, /there are more: --all, or --cursor \d+ --limit 2/)
    assert.match(page.stdout, /auth\.login/)
    assert.ok((await json('audit', 'list', '--action', 'auth.login', '--all')).length > 2)
  })

  test('a stream is printed line by line', async () => {
    const { stdout } = await remote(['audit', 'export', '--action', 'auth.login'])
    for (const line of stdout.trim().split('\n')) assert.equal(JSON.parse(line).action, 'auth.login')
  })

  test('a credential, an identifier and a profile find each other by name', async () => {
    assert.match((await json('eab', 'create', 'team-a', '--label', 'a team')).hmac_key, /^[\w-]{43}$/)
    await json('identifiers', 'create', '*.a.example', '10.0.0.0/8')
    assert.equal((await remote(['identifiers', 'allow', '*.a.example', '--eab', 'team-a'])).code, 0)
    const [{ identifier_value }] = await json('identifiers', 'list', '--eab', 'team-a')
    assert.equal(identifier_value, '*.a.example')
    const file = path.join(folder, 'profile.json')
    writeFileSync(file, JSON.stringify({ name: 'servers', profile_data: { san_maximum: 1 } }))
    await json('profiles', 'create', file)
    assert.equal(await json('profiles', 'assigned', '--eab', 'team-a'), null)
    await remote(['profiles', 'assign', 'servers', '--eab', 'team-a'])
    assert.equal((await json('profiles', 'assigned', '--eab', 'team-a')).name, 'servers')
    assert.equal((await json('eab', 'revoke', 'team-a')).revoked, true)
    await refused(['identifiers', 'allow', '*.a.example'], 2, /give either --account ID or --eab KID/)
  })

  test('switches and lists of the service', async () => {
    assert.equal((await json('maintenance', 'on', '--reason', 'a move')).maintenance_mode, true)
    assert.match((await remote(['maintenance', 'status'])).stdout, /^reason: a move$/m)
    assert.equal((await json('maintenance', 'off')).maintenance_mode, false)
    await refused(['crl', 'rebuild'], 1, /CRL/i)
    assert.deepEqual(await json('certificates', 'list', '--expiring-before', '2100-01-01'), [])
    assert.deepEqual(await json('accounts', 'list'), [])
  })

  test('any operation by its name, with its body as JSON', async () => {
    const made = await json('api', 'createToken', '--body', '{"name":"robot","role":"auditor"}')
    const { stdout } = await remote(['api', 'getMe', '--json'], { env: { CHANCERY_TOKEN: made.token } })
    assert.equal(JSON.parse(stdout).username, 'ann')
    assert.ok((await json('tokens', 'list')).some(({ name }: { name: string }) => name === 'robot'))
    assert.equal((await remote(['tokens', 'revoke', 'robot'])).code, 0)
  })

  test('a password, a lock, the terms and the audit log of another machine', async () => {
    await json('users', 'create', 'bea', '--email', 'bea@example.com')
    assert.match((await remote(['users', 'reset-password', 'bea'])).stdout, /^password +\S{33}$/m)
    assert.match((await remote(['users', 'unlock', 'bea'])).stdout, /bea has no failed logins/)
    assert.match((await remote(['users', 'unlock-address', '192.0.2.7'])).stdout, /192\.0\.2\.7 has no failed logins/)
    await refused(['users', 'unlock-address', 'here'], 2, /"here" is no IP address/)
    assert.equal((await json('terms', 'show')).accounts, 0)
    await refused(['terms', 'accept', '--all'], 1, /tos\.version is not set/)
    const { head, entries } = await json('audit', 'verify')
    assert.equal((await json('audit', 'verify', '--head', head)).whole, true)
    await refused(['audit', 'verify', '--head', `${entries + 5}:${'0'.repeat(64)}`], 1, /missing at the end/)
    const file = path.join(folder, 'no.crl')
    writeFileSync(file, 'no CRL')
    await refused(['certificates', 'revoke', '--from-crl', file], 1, /this is no CRL/)
  })

  test('what needs the host says why, in its help and when it is refused', async () => {
    for (const { usage, why, about } of HOST_COMMANDS) {
      const words = usage.replaceAll(/<[^>]+>/g, 'x').split(' ')
      await refused(words, 2, new RegExp(`works on the host only, with -c FILE: ${why}`))
      assert.ok(
        [about].flat().some((line) => line.includes(why)),
        usage,
      )
    }
  })

  test('every other command works here and there, or is about a login', async () => {
    const namesOf = async (program: Program | Promise<Program>) => (await program).commands.map(({ usage }) => usage)
    const here = await namesOf(localProgram([]))
    const there = await namesOf(remoteProgram([]))
    assert.deepEqual(
      here.filter((usage) => !there.includes(usage)),
      HOST_COMMANDS.map(({ usage }) => usage).sort((a, b) => here.indexOf(a) - here.indexOf(b)),
    )
    const sessions = there.filter((usage) => !here.includes(usage))
    const decisions = ['approve <approval>', 'reject <approval> <reason>', 'withdraw <approval>', 'collect <approval>']
    assert.deepEqual(sessions, [
      'login',
      'logout',
      'me show',
      'me reset-password',
      'tokens create <name>',
      ...decisions.map((words) => `approvals ${words}`),
      'notifications test',
    ])
    for (const usage of sessions) {
      const { code, stderr } = await runChancery(usage.replaceAll(/<[^>]+>/g, 'x').split(' '))
      assert.deepEqual([code, /is about a login: use chancery --server URL/.test(stderr)], [2, true], stderr)
    }
  })

  test('what is mistyped gets a suggestion, what is wrong a sentence', async () => {
    await refused(['users', 'lst'], 2, /did you mean list\?/)
    await refused(['api', 'lisUsers'], 2, /did you mean listUsers\?/)
    await refused(['users', 'list', '--jsn'], 2, /did you mean --json\?/)
    await refused(
      ['users', 'create', 'x', '--role', 'root'],
      2,
      /--role root: is one of admin, operator, registrar, auditor/,
    )
    await refused(['users', 'create', 'x', '--email', 'nowhere'], 2, /'email' must be an e-mail address/)
    await refused(['login', '--username', 'ann'], 1, /password is wrong/, { input: 'guess\n' })
    await refused(['users', 'list'], 1, /a bearer token is needed.*log in with/, {
      env: { XDG_CONFIG_HOME: `${folder}/none` },
    })
    await refused(['users', 'list'], 1, /cannot be reached/, { server: 'http://127.0.0.1:9' })
    await refused(['users', 'list'], 2, /--server ftp:/, { server: 'ftp://127.0.0.1' })
  })

  test('texts of strangers are refused, and steer no terminal where they are stored: table and JSON', async () => {
    const label = 'a\u009b31mb\u202ec\u0085d\u007f'
    const admin = await signIn(service.baseUrl, 'ann', password)
    assert.equal((await admin.send('POST', '/eab', { kid: 'steering', label })).status, 400)
    assert.equal((await admin.send('POST', '/eab', { kid: 'steering', label: 'plain' })).status, 201)
    // As another server has written it.
    await sql("UPDATE eab_credentials SET label = $1 WHERE kid = 'steering'", [label])
    // With an input it is a process of its own, from its very start.
    const own = { input: '\n' }
    const outputs = [
      await remote(['eab', 'list', '--all', '--json'], own),
      await remote(['eab', 'show', 'steering'], own),
    ]
    for (const { stdout } of outputs) {
      assert.match(stdout, /a\\u009b31mb\\u202ec\\u0085d\\u007f/)
      assert.match(stdout, /^[\n\x20-\x7e]*$/)
    }
    const listed = JSON.parse(outputs[0]?.stdout ?? '') as { kid: string; label: string }[]
    assert.equal(listed.find(({ kid }) => kid === 'steering')?.label, label)
  })

  test('logout ends the session and forgets its token', async () => {
    const { [`${service.baseUrl}/api`]: token = '' } = JSON.parse(readFileSync(tokens, 'utf8'))
    assert.equal((await remote(['logout'])).code, 0)
    assert.deepEqual(JSON.parse(readFileSync(tokens, 'utf8')), {})
    await refused(['me', 'show'], 1, /has expired, or was logged out/, { env: { CHANCERY_TOKEN: token } })
    await refused(['logout'], 1, /there is no login/)
  })
})
