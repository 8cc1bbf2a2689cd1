/** The embedded mode from the outside: what it prints works as printed, it ends in order, and it goes on with its data. */

import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { pemToDer } from '../support/acme-client.ts'
import { adminRequest } from '../support/admin.ts'
import { checkChain } from '../support/chain.ts'
import { type EmbeddedService, startEmbedded } from '../support/databases/embedded.ts'
import { embeddedQuery } from '../support/databases/embedded-database.ts'
import { childrenOf } from '../support/descendants.ts'
import { freePort } from '../support/free-port.ts'
import { type DnsRecords, startDnsRecords } from '../support/names/dns-records.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const NAMES = ['demo.test']

describe('embedded mode', requireCommand('openssl'), () => {
  let service: EmbeddedService
  let consoleUrl: string
  let records: DnsRecords | undefined
  let crlPort: string
  before(async () => {
    const port = String(await freePort())
    crlPort = String(await freePort())
    consoleUrl = `http://localhost:${port}/api/console/`
    service = await startEmbedded(undefined, words`--console --console-port ${port} --crl --crl-port ${crlPort}`)
  })
  after(async () => {
    await service?.dispose()
    await records?.close()
  })

  const shell = (client: 'curl' | 'certbot' | 'lego') => mustRun('sh', ['-c', service.commandLine(client)])
  const checkDemo = (file: string) =>
    checkChain({
      chainPem: readFileSync(path.join(service.dataDir, file), 'utf8'),
      rootFile: service.rootFile,
      names: NAMES,
    })

  test('prints a line for each step with its time', () => {
    for (const step of [
      'Creating the development CA',
      'Starting PostgreSQL',
      'Starting the signer',
      'Starting \\d+ front',
    ])
      assert.match(service.text(), new RegExp(`^${step}.* … \\d+\\.\\d s$`, 'm'))
  })

  test('prints where the console is, and the first password, which opens it', async () => {
    assert.ok(service.text().includes(consoleUrl))
    assert.equal((await fetch(consoleUrl)).status, 200)
    const password = /^ {2}password {2}(.+)$/m.exec(service.text())?.[1] ?? ''
    const reply = await adminRequest(new URL(consoleUrl).origin, 'POST', '/auth/login', {
      body: { username: 'admin', password },
    })
    assert.equal(reply.status, 200)
  })

  test('serves its CRL over plain HTTP, and its own certificate names none', async () => {
    const { headers } = await fetch(`http://localhost:${crlPort}/crl`)
    assert.equal(headers.get('content-type'), 'application/pkix-crl')
    const [own] = pemToDer(readFileSync(path.join(service.dataDir, 'server', 'cert.pem'), 'utf8'))
    assert.deepEqual(parseCertificate(own as Buffer).tbs.crlDistributionPointUrls, [])
  })

  test('the printed curl line shows the directory, over TLS that the printed root vouches for', async () => {
    const output = await shell('curl')
    assert.match(output, /"newOrder": ?"https:\/\/localhost:\d+\//)
  })

  test('the printed certbot line gets a certificate', requireCommand('certbot'), async () => {
    await shell('certbot')
    checkDemo('certbot/live/demo.test/fullchain.pem')
  })

  test('the printed lego line gets a certificate', requireCommand('lego'), async () => {
    await shell('lego')
    checkDemo('lego/certificates/demo.test.crt')
  })

  test(
    'a client may have any account key that the service can verify: lego takes P-384',
    requireCommand('lego'),
    async () => {
      const own = path.join(service.dataDir, 'lego384')
      await mustRun('sh', [
        '-c',
        service.commandLine('lego').replace(/ --path \S+ run$/, ` --path ${own} --key-type ec384 run`),
      ])
      checkDemo('lego384/certificates/demo.test.crt')
      const curves = readdirSync(path.join(own, 'accounts'), { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.key'))
        .map(
          (file) => createPrivateKey(readFileSync(path.join(own, 'accounts', file))).asymmetricKeyDetails?.namedCurve,
        )
      assert.deepEqual(curves, ['secp384r1'])
    },
  )

  test('Ctrl-C ends everything it started, with exit code 0, and a second start goes on with the same data', async () => {
    const root = readFileSync(service.rootFile, 'utf8')
    const issued = await serialNumbers()
    const started = descendants(service.process.pid ?? 0)
    assert.ok(started.length >= 2, 'at least the signer and PostgreSQL')

    assert.equal(await service.interrupt(), 0)
    // The helper that guards PostgreSQL against our sudden death is told to go as the last thing, and not waited for.
    await until('no process is left', () => started.every((pid) => !isRunning(pid)))

    records = await startDnsRecords(path.dirname(service.dataDir))
    service = await startEmbedded(service, ['--dns01-port', records.server.resolver.split(':')[1] ?? ''])
    assert.equal(readFileSync(service.rootFile, 'utf8'), root)
    const kept = await serialNumbers()
    assert.deepEqual(
      issued.filter((serial) => !kept.includes(serial)),
      [],
    )
    await shell('curl')
  })

  test('with a name server gives lego a wildcard certificate through dns-01', requireCommand('lego'), async () => {
    assert.doesNotMatch(readFileSync(path.join(service.dataDir, 'chancery.yaml'), 'utf8'), /dns-persist-01/)
    const own = path.join(service.dataDir, 'lego-wild')
    const words = ['--server', service.directoryUrl, '--email', 'admin@wild.test', '--accept-tos', '--path', own]
    const dns = ['--dns', 'exec', '--dns.disable-cp', '--dns.resolvers', records?.server.resolver ?? '']
    await mustRun('lego', [...words, ...dns, '--domains', '*.wild.test', 'run'], {
      env: {
        ...records?.env,
        LEGO_CA_CERTIFICATES: service.rootFile,
        EXEC_PATH: records?.hookFile ?? '',
        EXEC_POLLING_INTERVAL: '1',
      },
    })
    const chainPem = readFileSync(path.join(own, 'certificates', '_.wild.test.crt'), 'utf8')
    checkChain({ chainPem, rootFile: service.rootFile, names: ['*.wild.test'] })
  })

  async function serialNumbers(): Promise<string[]> {
    const rows = await embeddedQuery(service, "SELECT encode(serial_number, 'hex') AS serial FROM certificates")
    return rows.map(({ serial }) => String(serial))
  }
})

/** Process ids of all children and their children. */
const descendants = (pid: number): number[] => childrenOf(pid).flatMap((child) => [child, ...descendants(child)])

/** A zombie has ended; whether somebody has collected it yet is not our affair. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
