/** A start while PostgreSQL is away: the service waits, says so, and goes on by itself. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { stringify } from 'yaml'
import { testCa } from '../support/ca.ts'
import { databaseConfig, type TestDatabase, testDatabase } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { WAIT_MS } from '../support/patience.ts'
import { mustRun } from '../support/run-command.ts'
import type { LogLine } from '../support/service.ts'
import { overTcp, type TcpDatabase } from '../support/tcp-database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')

describe('a service that is started while its database is away', () => {
  const folder = temporaryFolder()
  let configFile: string
  let database: TestDatabase
  let databasePort: number
  let servicePort: number
  const children: ChildProcess[] = []
  /** The port of the configuration leads to the database once it is there. */
  let bridge: TcpDatabase | undefined
  before(async () => {
    database = await testDatabase()
    databasePort = await freePort()
    servicePort = await freePort()
    const ca = await testCa(path.join(folder, 'ca'))
    configFile = path.join(folder, 'config.yaml')
    writeFileSync(configFile, configuration(ca))
  })
  after(async () => {
    for (const child of children) child.kill('SIGKILL')
    bridge?.close()
    await database?.drop()
  })

  const configuration = (ca: { intermediate: string; intermediateKey: string; root: string }) =>
    stringify({
      server: { external_url: `http://127.0.0.1:${servicePort}`, bind: '127.0.0.1', port: servicePort, workers: 1 },
      database: { ...databaseConfig(database.connection), host: '127.0.0.1', port: databasePort },
      ca: {
        internal: { root_cert_path: ca.intermediate, root_key_path: ca.intermediateKey, chain_path: ca.root },
        signer: { audit_file: path.join(folder, 'signer-audit.jsonl') },
      },
      logging: { level: 'CRITICAL' },
    })

  function start() {
    const child = spawn(process.execPath, [CLI, '-c', configFile, 'serve'], { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const log: LogLine[] = []
    createInterface({ input: child.stdout }).on('line', (line) => log.push(JSON.parse(line)))
    const exited = new Promise<number | null>((resolve) => child.once('close', resolve))
    const said = (message: string) => until(message, () => log.find((line) => line.message === message), 2 * WAIT_MS)
    return { child, log, exited, said }
  }

  test('says so once for each reason, at any level, and ends at SIGTERM with 0', async () => {
    const startedAt = performance.now()
    const { child, log, exited, said } = start()
    const { level, reason } = await said('waiting for the database')
    assert.equal(level, 'warn')
    assert.match(String(reason), /^cannot connect to database \w+ at 127\.0\.0\.1:\d+ as \w+: .*ECONNREFUSED/)
    // Two more attempts.
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    assert.equal(child.exitCode, null)
    child.kill('SIGTERM')
    assert.equal(await exited, 0)
    assert.deepEqual(
      log.map(({ message }) => message).filter((message) => message !== 'waiting for the database'),
      ['service stopped'],
    )
    const most = 2 + Math.ceil((performance.now() - startedAt) / 10_000)
    assert.ok(log.length <= most, 'at most one line every ten seconds')
  })

  test('a check of its configuration does not wait', async () => {
    assert.match(await mustRun(process.execPath, [CLI, '-c', configFile, '--validate-only']), /configuration is valid/)
  })

  test('is ready as soon as the database is there', async () => {
    const { child, exited, said } = start()
    await said('waiting for the database')
    bridge = await overTcp(database.connection, databasePort)
    await said('the database is there')
    await said('service ready')
    assert.equal((await fetch(`http://127.0.0.1:${servicePort}/directory`)).status, 200)
    child.kill('SIGTERM')
    assert.equal(await exited, 0)
  })
})
