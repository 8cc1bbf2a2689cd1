/**
 * A backup is restored with the commands of docs/operations/database.md ("Restoring"), as they stand there: what was decided
 * since the backup restricts again, and the rest is listed.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readDecided, undoneIn, untoldIn } from '../../bench/faults/acts/decided.ts'
import { PERMITTING } from '../../bench/faults/acts/permitting.ts'
import { RESTRICTING } from '../../bench/faults/acts/restricting.ts'
import { makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { closeConnections } from '../support/acme-client.ts'
import { type ActingWorld, startActingWorld } from '../support/acting-world.ts'
import { adminConfig } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { chancery } from '../support/operator.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const MANUAL = fileURLToPath(new URL('../../../docs/operations/database.md', import.meta.url))
const CONSOLE = 'https://console.corp.example'

/** Shell lines of the manual, in their order. */
const COMMANDS = ['restore-copy', 'restore-schema', 'restore-compare'].flatMap((name) =>
  pageBlock('docs/operations/database.md', name).trimEnd().split('\n'),
)

/** Debian's server: its clients refuse a newer one. */
const VERSIONS = '/usr/lib/postgresql'
const [newest] = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : []

/** A server with the role and the database of the manual, on a socket in the folder. */
function startDebianPostgres(folder: string) {
  const data = path.join(folder, 'data')
  const run = (program: string, ...words: string[]) => {
    const file = path.join(VERSIONS, newest ?? '', 'bin', program)
    const [command = '', ...rest] = process.getuid?.() === 0 ? ['runuser', '-u', 'postgres', '--', file] : [file]
    // The server must not keep a pipe of the test open.
    execFileSync(command, [...rest, ...words], { cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] })
  }
  if (process.getuid?.() === 0) execFileSync('chown', ['postgres', folder])
  run('initdb', '-D', data, '-A', 'trust', '-U', 'postgres')
  run(
    'pg_ctl',
    '-D',
    data,
    '-w',
    '-l',
    path.join(folder, 'log'),
    '-o',
    `-k ${folder} -c listen_addresses= -c fsync=off`,
    'start',
  )
  const connection = { host: folder, port: 5432, user: 'chancery', database: 'chancery' }
  const env = { ...process.env, PGHOST: folder, PGPORT: '5432', PGUSER: 'postgres' }
  const sh = (line: string) => execFileSync('sh', ['-ec', line], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  sh('createuser chancery && createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 --owner chancery chancery')
  return { connection, sh, stop: () => run('pg_ctl', '-D', data, '-w', '-m', 'fast', 'stop') }
}

describe('a restore of a backup, as the manual says', {
  skip: newest === undefined && 'needs PostgreSQL of Debian',
}, () => {
  const signer = new TestSigner({ default: makeAuthority('P-256') }, { policyYaml: '{ max_crl_validity_days: 2 }' })
  const folder = temporaryFolder()
  let postgres: ReturnType<typeof startDebianPostgres>
  let service: TestService
  let acting: ActingWorld

  before(async () => {
    chmodSync(folder, 0o755)
    postgres = startDebianPostgres(folder)
    await signer.start()
    service = await startTestService(options())
  })
  after(async () => {
    closeConnections()
    await acting?.close()
    await service?.dispose()
    await signer.end()
    postgres?.stop()
  })

  const options = () => ({
    fronts: 1 as const,
    database: { connection: postgres.connection, drop: async () => undefined },
    config: {
      ...adminConfig({ approvals: { bulk_revocation_above: 0 }, console_url: `${CONSOLE}/api/console/` }),
      ca: { signer: signer.section },
      crl: { enabled: true },
      nonce: { store: 'database' },
      database: { auto_setup: true, decisions_file: signer.at('decisions.jsonl') },
    },
  })
  const decidedIn = (database: string) =>
    readDecided((text) =>
      rowsIn({ connection: { ...postgres.connection, database }, drop: async () => undefined }, text),
    )

  /** The tests need no other user, and have the backup elsewhere. */
  async function type(line: string): Promise<void> {
    const command = line.replace(/^cd \S+ && /, '').replaceAll('/var/backups', folder)
    const [, words] = /^runuser -u chancery -- chancery -c config\.yaml (.+)$/.exec(command) ?? []
    if (words !== undefined) {
      const { code, stderr } = await chancery(service, ...words.split(' '))
      assert.ok(code === 0 || / --dry-run$| --lost$/.test(words), `${line}: ${stderr}`)
      return
    }
    postgres.sh(command.replace(/^runuser -u postgres -- /, ''))
  }

  test('restricts what was restricted since, and lists the rest', async () => {
    acting = await startActingWorld(service, CONSOLE)
    const { world } = acting
    const acts: (() => Promise<unknown>)[] = []
    for (const prepare of [...Object.values(RESTRICTING), ...Object.values(PERMITTING)])
      acts.push(await prepare(world, acts.length))

    const [backup] = /(?<=`)cd \/ && runuser -u postgres -- pg_dump [^`]+(?=`)/.exec(readFileSync(MANUAL, 'utf8')) ?? []
    await type(backup ?? 'false')
    for (const act of acts) await act()
    await chancery(service, 'signing', 'stop')
    await service.stop()
    for (const command of COMMANDS) await type(command)
    service = await startTestService({ ...options(), continueFrom: service })

    const was = await decidedIn('lost')
    let now = was
    const isWhole = async () => {
      now = await decidedIn('chancery')
      return undoneIn(now, was).length === 0
    }
    await until('nothing is undone', isWhole).catch(() => undefined)
    assert.deepEqual(undoneIn(now, was), [], 'restrictions undone')
    assert.deepEqual(untoldIn(now, was), [], 'entries and accounts that nobody is told of')
  })
})
