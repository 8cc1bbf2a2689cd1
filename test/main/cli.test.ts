/** The command line: what each command prints and how it ends. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { stringify } from 'yaml'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import { makeAuthority } from '../signer/authority.ts'
import { runChancery } from '../support/commands.ts'
import { databaseConfig, type TestDatabase, testDatabase } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { type CommandResult, runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const { version } = JSON.parse(readFileSync(path.resolve(import.meta.dirname, '../../../package.json'), 'utf8')) as {
  version: string
}

/** Temporary files of the commands go here, so that a test can see what they leave behind. */
const scratch = temporaryFolder()

const env = { SERVICE_CONFIG: '', TMPDIR: scratch }

/** A start of the service, and a command without a failure, in a process of its own; the others share one. */
async function chancery(...args: string[]): Promise<CommandResult> {
  if (args.includes('serve') || args.includes('--version')) return runCommand(process.execPath, [CLI, ...args], { env })
  const { code, stdout, stderr } = await runChancery(args, env)
  return { code, output: stdout + stderr }
}

/** Ten faults in twenty lines: values, keys, variables, a network, a switch ahead of its time. */
const TEN_ERRORS = `server:
  external_url: https://acme.example.com/
  prot: 8443
  port: 70000
  timeout: "30"
database:
  database: chancery
  user: \${CHANCERY_TEST_NOT_SET}
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

describe('command line', () => {
  const inspect = ['order', 'certificate', 'account'].map((what) => ['inspect', what])
  const commands = [['serve'], ['db', 'status'], ['db', 'migrate'], ['ca', 'test-sign'], ['crl', 'rebuild']]

  test('--help names every command and says what the exit codes mean', async () => {
    const { code, output } = await chancery('--help')
    assert.equal(code, 0)
    for (const command of [...commands, ...inspect])
      assert.match(output, new RegExp(`^ +${command.join(' ')} {2,}\\w`, 'm'))
    assert.match(output, /Exit codes: 0 /)
  })

  test('an environment that undoes a protection ends both programs before anything is read', async () => {
    const unsafe = { NODE_TLS_REJECT_UNAUTHORIZED: '0' }
    for (const [program, name] of [
      [CLI, 'chancery'],
      [path.resolve(CLI, '../../../signer/start.cjs'), 'chancery-signer'],
    ] as const) {
      const { code, output } = await runCommand(
        process.execPath,
        [program, 'serve', '-c', path.join(scratch, 'none')],
        { env: unsafe },
      )
      assert.deepEqual([code, output.split('=')[0]], [1, `${name}: NODE_TLS_REJECT_UNAUTHORIZED`])
    }
  })

  test('output that a full disk refuses is an error of the command, a reader that has gone is none', async () => {
    const run = (command: string) => runCommand('/bin/sh', ['-c', command, 'sh', process.execPath, CLI])
    const { code, output } = await run('"$@" --help > /dev/full')
    assert.deepEqual(
      [code, output.split(':').slice(0, 3).join(':')],
      [1, 'chancery: cannot write to standard output: ENOSPC'],
    )
    assert.deepEqual(await run('"$@" --help | true'), { code: 0, output: '' })
  })

  test('output of which a full disk takes a part is an error of the command', async () => {
    const file = path.join(scratch, 'cut-help')
    const { code, output } = await runCommand('/bin/sh', [
      ...['-c', 'ulimit -f 1; "$@" --help > "$0"', file, process.execPath, CLI],
    ])
    assert.deepEqual([code, output], [1, 'chancery: cannot write to standard output: EFBIG: file too large, write\n'])
    assert.ok(readFileSync(file).length > 0)
    rmSync(file)
  })

  for (const command of commands) {
    test(`${command.join(' ')} --help shows usage, options and an example`, async () => {
      const { code, output } = await chancery(...command, '--help')
      assert.equal(code, 0)
      assert.match(output, new RegExp(`\\$ chancery ${command.join(' ')} \\[options\\]`))
      assert.match(output, /^ +-c, --config +Configuration file/m)
      assert.match(output, /Examples\n +\$ chancery /)
    })
  }

  test('--version prints the version of the package', async () => {
    assert.deepEqual(await chancery('--version'), { code: 0, output: `chancery, ${version}\n` })
  })

  const wrong: [string[], RegExp][] = [
    [['nonsense'], /unknown command: nonsense; see chancery --help/],
    [['db', 'migrat'], /unknown command: db migrat; did you mean migrate\?; see chancery db --help/],
    [['serv'], /unknown command: serv; did you mean serve\?; see/],
    [['db', 'status', '--debgu'], /unknown option: --debgu; did you mean --debug\?; see chancery db status --help/],
    [['db'], /db needs one more word; see chancery db --help/],
    [['-c', 'F', '--frob', 'db', 'status'], /unknown option: --frob; see chancery db status --help/],
    [['--frob', 'x', 'db', 'status'], /unknown option: --frob; see/],
    [['admin', 'create-user', 'ann'], /one word too many: ann; did you mean --username ann\?/],
    [['inspect'], /inspect needs one more word; see chancery inspect --help/],
    [['inspect', 'nonsense'], /unknown command: inspect nonsense; see chancery inspect --help/],
    [['serve'], /no configuration: give -c FILE or set SERVICE_CONFIG/],
    [['--all', 'certificates', 'list', '--domain', 'a.test'], /no configuration: give -c FILE/],
    [['serve', '--nonsense'], /unknown option: --nonsense/],
    [['-c'], /--config: takes one file name/],
    [['-c', 'a.yaml', '-c', 'b.yaml'], /--config: is given twice/],
    [['--dev', '--port', '99999'], /--port 99999: takes a port number/],
    [['--dev', '--dns-persist'], /--dns-persist: needs --dns01-port/],
    [['--dev', '--port', '-1'], /--port -1: takes a port number/],
    [['db', 'migrate', 'now'], /one word too many: now/],
    [['inspect', 'account', 'a', 'b'], /one word too many: b; see/],
    [['renewals', 'advise', '0a1b2c'], /one word too many: 0a1b2c; did you mean --serial 0a1b2c\?; see/],
    [['renewals', 'clear', '0a1b2c'], /did you mean --serial 0a1b2c\?/],
  ]
  for (const [words, complaint] of wrong) {
    test(`"chancery ${words.join(' ')}" is wrong usage: one line and exit code 2`, async () => {
      const { code, output } = await chancery(...words)
      assert.equal(code, 2, output)
      assert.match(output, complaint)
      assert.equal(output.trim().split('\n').length, 1)
    })
  }

  test('a missing argument is wrong usage, and the help of the command is named', async () => {
    assert.deepEqual(await chancery('inspect', 'order'), {
      code: 2,
      output: 'chancery: inspect order needs <uuid>; see chancery inspect order --help\n',
    })
  })

  for (const [option, others] of [
    ['--port', []],
    ['--console-port', ['--console']],
    ['--crl-port', ['--crl']],
  ] as const)
    test(`--dev with a port that is in use names ${option}, before it makes a CA or a database`, async (t) => {
      const holder = createServer().listen(0, '127.0.0.1')
      await once(holder, 'listening')
      t.after(() => holder.close())
      const { port } = holder.address() as AddressInfo
      const free = option === '--port' ? [] : ['--port', String(await freePort())]
      const dataDir = path.join(scratch, `port${option}`)
      const words = ['serve', '--dev', '--data-dir', dataDir, ...others, ...free, option, String(port)]
      const { code, output } = await chancery(...words)
      assert.equal(code, 1, output)
      assert.ok(output.includes(`port ${port} of 127.0.0.1 is in use; give another with ${option}`), output)
      assert.equal(existsSync(dataDir), false)
    })

  test('a file that cannot be read is one line', async () => {
    assert.deepEqual(await chancery('-c', '/nowhere/config.yaml', 'serve'), {
      code: 1,
      output: 'chancery: /nowhere/config.yaml: cannot be read: ENOENT, there is no such file\n',
    })
  })

  for (const group of ['db', 'inspect', 'eab'])
    test(`${group} --help lists the commands of ${group} and no others`, async () => {
      const { code, output } = await chancery(group, '--help')
      assert.equal(code, 0, output)
      const listed = [...output.matchAll(/^ {4}(\w\S*) \S+ {2,}\S/gm)].map(([, first]) => first)
      assert.ok(listed.length > 1, output)
      assert.deepEqual(new Set(listed), new Set([group]))
    })

  test('a command without a configuration says how to give one', async () => {
    assert.deepEqual(await chancery('db', 'status'), {
      code: 2,
      output: 'chancery: no configuration: give -c FILE or set SERVICE_CONFIG; see chancery db status --help\n',
    })
  })

  describe('with a configuration and an empty database', () => {
    const folder = temporaryFolder()
    let database: TestDatabase
    let emptyName: string
    let ca: DevCaFiles
    before(async () => {
      database = await testDatabase()
      emptyName = `${database.connection.database}_empty`
      await query(database.connection.database, `CREATE DATABASE ${emptyName}`)
      ca = (await ensureDevCa(path.join(folder, 'ca'), new Date())).files
    })
    after(async () => {
      await query(database.connection.database, `DROP DATABASE IF EXISTS ${emptyName} WITH (FORCE)`)
      await database.drop()
    })

    async function query(name: string, sql: string): Promise<void> {
      const client = new pg.Client({ ...database.connection, database: name })
      await client.connect()
      await client.query(sql)
      await client.end()
    }

    /** @returns the file's path. `over` replaces whole sections. */
    async function configFile(over: Record<string, unknown> = {}): Promise<string> {
      const port = await freePort()
      const file = path.join(folder, `config-${port}.yaml`)
      const config = {
        server: { external_url: `http://127.0.0.1:${port}`, bind: '127.0.0.1', port, workers: 1 },
        database: { ...databaseConfig(database.connection), database: emptyName, auto_setup: false },
        ca: { internal: { root_cert_path: ca.intermediate, root_key_path: ca.intermediateKey, chain_path: ca.root } },
        ...over,
      }
      writeFileSync(file, stringify(config))
      return file
    }

    test('--validate-only says what the configuration amounts to', async () => {
      const { code, output } = await chancery('-c', await configFile(), '--validate-only')
      assert.equal(code, 0, output)
      assert.match(output, /^listens on 127\.0\.0\.1:\d+ \(HTTP\) as http:/m)
      assert.match(output, /^the configuration is valid$/m)
    })

    test('--validate-only and the start refuse an issuer that cannot sign the CRLs that are to be published', async () => {
      const limited = path.join(folder, 'without-crl-sign.pem')
      writeFileSync(limited, makeAuthority('P-256', { keyUsages: ['key_cert_sign'] }).certificatePem)
      const internal = { root_cert_path: limited, root_key_path: ca.intermediateKey }
      const file = await configFile({ crl: { enabled: true }, ca: { internal } })
      for (const words of [['--validate-only'], ['serve']]) {
        const { code, output } = await chancery('-c', file, ...words)
        assert.equal(code, 1, output)
        assert.match(output, /the issuer default cannot sign CRLs: the key usage of its certificate lacks cRLSign/)
      }
    })

    test('--validate-only looks for the module or the script that answers an upstream', async () => {
      const checked = async (handler: string, handlerConfig: object) => {
        const upstream = { directory_url: 'https://upstream.test/directory', email: 'pki@example.com' }
        const proxy = { ...upstream, challenge_handler: handler, challenge_handler_config: handlerConfig }
        const file = await configFile({ ca: { backend: 'acme_proxy', acme_proxy: proxy } })
        const { code, output } = await chancery('-c', file, '--validate-only')
        assert.equal(code, 1, output)
        return output
      }
      const key = String.raw`ca\.acme_proxy\.challenge_handler`
      const module = await checked('ext:/nowhere/zone.mjs#Zone', {})
      assert.match(module, new RegExp(`${key}: /nowhere/zone\\.mjs#Zone is not usable: `))
      const script = await checked('callback_dns', {
        create_script: '/nowhere/create',
        delete_script: '/nowhere/delete',
      })
      assert.match(script, new RegExp(`${key}_config\\.create_script: /nowhere/create cannot be run: `))
      const python = await checked('ext:corp.dns.ZoneFactory', {})
      assert.match(
        python,
        new RegExp(`${key} \\(line \\d+\\): names a Python class; .* ext:\\./handlers/zonefactory\\.js#ZoneFactory, `),
      )
    })

    test('--validate-only beside another command checks and does nothing else', async () => {
      const file = await configFile()
      const { code, output } = await chancery('-c', file, 'db', 'migrate', '--validate-only')
      assert.equal(code, 0, output)
      assert.match(output, /^the configuration is valid$/m)
      const status = await chancery('-c', file, 'db', 'status')
      assert.equal(status.code, 1, 'the database is still empty')
      assert.match(status.output, /cannot serve on this schema: run "chancery -c CONFIG db migrate"\n$/)
    })

    test('a file with nine errors prints all nine with their lines, in the order of the file', async () => {
      const file = path.join(folder, 'nine-errors.yaml')
      writeFileSync(file, TEN_ERRORS)
      for (const words of [['--validate-only'], ['serve'], ['db', 'status']]) {
        const { code, output } = await chancery('-c', file, ...words)
        assert.equal(code, 1)
        const lines = [...output.matchAll(/^[\w.[\]]+ \(line (\d+)\): \S/gm)].map(([, line]) => Number(line))
        assert.deepEqual(lines, [2, 3, 4, 5, 8, 9, 10, 12, 15], output)
      }
    })

    test('on an empty database db status lists what is missing, and serve refuses and says what to do', async () => {
      const file = await configFile()
      const status = await chancery('-c', file, 'db', 'status')
      assert.equal(status.code, 1)
      assert.match(status.output, /^ +missing +0001_\w+\.sql$/m)

      const serve = await chancery('-c', file, 'serve')
      assert.equal(serve.code, 1)
      assert.match(serve.output, /chancery: the database lacks \d+ migration\(s\), from 0001_\w+\.sql; run "chancery/)
    })

    test('renewal clear on a schema that is not current says what to do', async () => {
      const { code, output } = await chancery('-c', await configFile(), 'renewals', 'clear', '--all')
      assert.equal(code, 1, output)
      assert.match(output, /chancery: the database lacks \d+ migration\(s\), from 0001_\w+\.sql; run "chancery/)
    })

    test('db migrate applies what is missing and says so, once', async () => {
      const file = await configFile()
      const first = await chancery('-c', file, 'db', 'migrate')
      assert.equal(first.code, 0, first.output)
      assert.match(first.output, /^applied 0001_\w+\.sql in \d+\.\d s$/m)

      const second = await chancery('-c', file, 'db', 'migrate')
      assert.equal(second.code, 0)
      assert.match(second.output, /^nothing to do: the schema is current$/m)

      const status = await chancery('-c', file, 'db', 'status')
      assert.equal(status.code, 0)
      assert.match(status.output, /^the schema is current$/m)
      // The server of the tests keeps nothing over a loss of power.
      assert.match(status.output, /^warning: fsync is off in PostgreSQL: /m)
    })

    test('a schema of a newer release is refused by serve and db migrate, but signing can be stopped', async () => {
      await query(emptyName, "INSERT INTO schema_migrations (version, name) VALUES (9999, '9999_later.sql')")
      try {
        const file = await configFile()
        for (const words of [['serve'], ['db', 'migrate']]) {
          const { code, output } = await chancery('-c', file, ...words)
          assert.equal(code, 1)
          assert.match(output, /chancery: the database has migration 9999, which this release .* does not know/)
        }
        const status = await chancery('-c', file, 'db', 'status')
        assert.equal(status.code, 1)
        assert.match(status.output, /^ +unknown +9999, from a newer release$/m)
        for (const word of ['stop', 'resume']) assert.equal((await chancery('-c', file, 'signing', word)).code, 0)
      } finally {
        await query(emptyName, 'DELETE FROM schema_migrations WHERE version = 9999')
      }
    })

    test('a database that is not there is a sentence and not a stack', async () => {
      const port = await freePort()
      const file = await configFile({
        database: { host: '127.0.0.1', port, user: 'nobody', database: 'none', sslmode: 'disable' },
      })
      for (const words of [
        ['db', 'status'],
        ['db', 'migrate'],
        ['renewals', 'clear', '--all'],
      ]) {
        const { code, output } = await chancery('-c', file, ...words)
        assert.equal(code, 1)
        const place = `database none at 127.0.0.1:${port} as nobody`
        assert.match(output, new RegExp(`^chancery: cannot connect to ${place}: .*ECONNREFUSED`, 'm'))
        assert.doesNotMatch(output, /^ +at /m)
      }
    })

    test('ca test-sign makes a signature with every issuer, and a certificate', async () => {
      const { code, output } = await chancery('-c', await configFile(), 'ca', 'test-sign')
      assert.equal(code, 0, output)
      assert.match(output, /^internal: issuer default: \S+ signature made and verified in \d+\.\d ms$/m)
      assert.match(output, /: valid until \d{4}-\d\d-\d\dT\S+, 2 certificate\(s\) in its chain$/m)
      assert.match(output, /^internal: revoked: [0-9a-f]+$/m)
      assert.deepEqual(readdirSync(scratch), [])
    })

    test('ca test-sign with a key that is not the certificate’s ends with 1 and says why', async () => {
      const other = (await ensureDevCa(path.join(folder, 'other-ca'), new Date())).files
      const file = await configFile({
        ca: {
          internal: { root_cert_path: ca.intermediate, root_key_path: other.intermediateKey, chain_path: ca.root },
        },
      })
      const { code, output } = await chancery('-c', file, 'ca', 'test-sign')
      assert.equal(code, 1)
      assert.match(output, /^chancery: the signer did not start .*key/m)
      assert.deepEqual(readdirSync(scratch), [], 'neither a secret nor a folder is left behind')
    })

    test('ca test-sign with a signer that does not run names its socket and says what to look at', async () => {
      const secret = path.join(folder, 'secret')
      writeFileSync(secret, 'ab'.repeat(32), { mode: 0o600 })
      const socket = path.join(folder, 'none.sock')
      const file = await configFile({ ca: { signer: { socket, secret_file: secret } } })
      assert.deepEqual(await chancery('-c', file, 'ca', 'test-sign'), {
        code: 1,
        output: `chancery: no test signature from the signer at ${socket}: there is no such socket; is chancery-signer running?\n`,
      })
    })

    const secretless = () =>
      configFile({ ca: { signer: { socket: path.join(folder, 'none.sock'), secret_file: '/nowhere/secret' } } })
    for (const words of [['--validate-only'], ['serve'], ['ca', 'test-sign']]) {
      test(`${words.join(' ')}: a secret that is not there is named with its key`, async () => {
        const file = await secretless()
        const { code, output } = await chancery('-c', file, ...words)
        assert.equal(code, 1, output)
        const sentence = 'ca.signer.secret_file: /nowhere/secret: cannot be read: ENOENT, there is no such file'
        assert.ok(output.endsWith(`chancery: ${file} is not usable:\n${sentence}\n`), output)
      })
    }

    test('everything that is wrong with the files is said at once, before the start does anything', async () => {
      const port = await freePort()
      const file = await configFile({
        server: {
          external_url: `https://127.0.0.1:${port}`,
          bind: '127.0.0.1',
          port,
          tls: { cert_path: ca.intermediateKey, key_path: '/nowhere/key.pem' },
        },
        database: { host: '/nowhere', user: 'nobody', database: 'none' },
        ca: { internal: { root_cert_path: ca.intermediate, root_key_path: folder } },
        acme: { eab_key_file: '/nowhere/eab' },
      })
      const { code, output } = await chancery('-c', file, 'serve')
      assert.equal(code, 1)
      assert.deepEqual(output.slice(output.indexOf('chancery: ')).trim().split('\n').slice(1), [
        `server.tls.cert_path: ${ca.intermediateKey}: holds no certificate in PEM form`,
        'server.tls.key_path: /nowhere/key.pem: cannot be read: ENOENT, there is no such file',
        `ca.internal.root_key_path: ${folder}: is not a file`,
        'acme.eab_key_file: /nowhere/eab: cannot be read: ENOENT, there is no such file',
      ])
    })

    test('a start that fails at the CRLs ends, although they have a schedule', async () => {
      const file = await configFile({
        database: databaseConfig(database.connection),
        crl: { enabled: true, schedule: '0 3 * * *' },
      })
      await query(database.connection.database, 'DROP TABLE crls')
      const { code, output } = await chancery('-c', file, 'serve')
      assert.match(output, /relation "crls" does not exist/)
      assert.equal(code, 1, output)
    })

    test('a key file that others may read is not used', async () => {
      const file = await configFile()
      chmodSync(ca.intermediateKey, 0o644)
      try {
        const { code, output } = await chancery('-c', file, 'ca', 'test-sign')
        assert.equal(code, 1, output)
        assert.match(output, /chancery: .*permission|readable|mode/i)
      } finally {
        chmodSync(ca.intermediateKey, 0o600)
      }
    })
  })
})
