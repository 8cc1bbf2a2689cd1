/**
 * This release beside the previous one: the upgrade of two instances and their signer under load, and with CHANCERY_NIGHTLY=1 each
 * signer with each service. What goes over the socket is held fixed by `test/unit/signer/previous-frames.test.ts`, too.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, SIGNER_PROGRAM, startDaemon } from '../signer/daemon.ts'
import {
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import { emptyDatabase, type TestDatabase } from '../support/database.ts'
import { haproxy, makeCertificate, nginx } from '../support/proxies.ts'
import { EXTERNAL_URL, endLanes, startLane } from '../support/proxy-flows.ts'
import { previousRelease, type Release } from '../support/release.ts'
import { requireAll } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { IS_NIGHTLY, startFlows, summary } from '../support/steady-flows.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
/** With each combination. */
const FLOWS = 100
/** Before the upgrade, and after each of its steps. */
const FLOWS_A_STEP = IS_NIGHTLY ? 130 : 8

/** HAProxy counts checks by the clock, which a machine that starts a signer slowly fails; it is in the long run. */
const PROXIES = IS_NIGHTLY ? [nginx, haproxy] : [nginx]

describe('this release and the previous one', requireAll(nginx.required, haproxy.required), () => {
  let previous: Release
  let roots: Record<'previous' | 'this', { root: string; signer: string }>
  const cleanups: (() => unknown)[] = []
  before(async () => {
    previous = await previousRelease()
    roots = { previous, this: { root: ROOT, signer: SIGNER_PROGRAM } }
  })
  after(async () => {
    closeConnections()
    for (const cleanup of cleanups.toReversed()) await cleanup()
  })

  /** A signer's files, which outlive it, for its successor. */
  const signerFiles = () => writeSignerFiles({ default: makeAuthority('P-256') })

  const configOf = (files: SignerFiles, more: Record<string, unknown> = {}) => ({
    ca: { signer: { socket: files.socket, secret_file: path.join(files.folder, 'secret') } },
    crl: { enabled: true },
    ...more,
  })

  async function databaseFor(root: string): Promise<{ database?: TestDatabase; auto: Record<string, unknown> }> {
    return root === ROOT ? { auto: {} } : { database: await emptyDatabase(), auto: { database: { auto_setup: true } } }
  }

  for (const [ofSigner, ofService] of [
    ['this', 'previous'],
    ['previous', 'this'],
  ] as const)
    test(`${ofService} service works with ${ofSigner} signer`, {
      skip: IS_NIGHTLY ? false : 'CHANCERY_NIGHTLY=1 runs it',
    }, async (t) => {
      const files = signerFiles()
      const daemon = await startDaemon(files.config, [], {}, roots[ofSigner].signer)
      const { root } = roots[ofService]
      const { auto, ...options } = await databaseFor(root)
      const service = await startTestService({ ...options, root, config: configOf(files, auto) })
      const responder = await startResponder(service.http01Port)
      try {
        const { directoryUrl } = service
        const flows = await startFlows({ directoryUrl, responder, connect: () => ({ send, close: () => undefined }) })
        await flows.reached(FLOWS)
        await flows.stop()
        t.diagnostic(summary(flows.tally))
        await checkRevocation(service, responder)
        const health = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
        assert.deepEqual([health.status, health.json.checks.ca_backend], [200, { status: 'ok' }])
        const cli = path.join(root, 'dist/src/cli/main.js')
        const config = path.join(service.folder, 'config.yaml')
        const tested = await mustRun(process.execPath, [cli, '-c', config, 'ca', 'test-sign'])
        assert.match(tested, /revoked: [0-9a-f]+/)
        const faults = service.log.filter(({ level }) => level === 'error' || level === 'fatal')
        assert.deepEqual(faults, [])
      } finally {
        await responder.close()
        await service.dispose()
        await daemon.stop()
      }
      assert.ok((await verifyAuditChain(files.auditFile)).ok)
    })

  async function checkRevocation(service: TestService, responder: Responder): Promise<void> {
    const client = await registeredClient(service.directoryUrl)
    const { der } = await client.obtain(['revoked.test'], responder)
    const url = client.directory['revokeCert'] as string
    assert.equal((await client.post(url, { certificate: base64url(der) })).status, 200)
    const serial = new X509Certificate(der).serialNumber.toLowerCase()
    await until('its entry in the CRL', async () => {
      const { body } = await send({ method: 'GET', url: `${service.baseUrl}/crl` })
      return readCrl(body).entries.some((entry) => entry.serial === serial)
    })
  }

  test('an upgrade, the signer first, then the schema and one instance after the other, loses no request', async (t) => {
    const folder = temporaryFolder()
    makeCertificate(folder)
    const files = signerFiles()
    let daemon: Daemon = await startDaemon(files.config, [], {}, previous.signer)
    cleanups.push(() => daemon.stop())
    const config = (http01Port?: number) =>
      configOf(files, {
        server: { external_url: EXTERNAL_URL },
        proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
        nonce: { store: 'database' },
        database: { auto_setup: true },
        ...(http01Port && { challenges: { http01: { port: http01Port } } }),
      })
    const { root } = previous
    const first = await startTestService({ root, config: config(), database: await emptyDatabase() })
    cleanups.push(() => first.dispose())
    const { http01Port } = first
    const responder = await startResponder(http01Port)
    cleanups.push(() => responder.close())
    const second = await startTestService({ root, config: config(http01Port), beside: first })
    cleanups.push(() => second.dispose())
    const instances = [first, second]

    const options = { folder, instances, responder, cleanups }
    const lanes = await Promise.all(PROXIES.map((proxy) => startLane(proxy.command, proxy, options)))
    let flows = 0
    const goOn = async (step: string) => {
      flows += FLOWS_A_STEP
      t.diagnostic(step)
      await Promise.all(lanes.map((lane) => lane.flows.reached(flows)))
    }
    await goOn('the previous release')
    assert.equal(await daemon.stop(), 0)
    daemon = await startDaemon(files.config)
    await goOn('the signer of this release')
    // What an operator does who goes back: its audit chain and numbers are read again.
    assert.equal(await daemon.stop(), 0)
    daemon = await startDaemon(files.config, [], {}, previous.signer)
    await goOn('the previous signer again')
    assert.equal(await daemon.stop(), 0)
    daemon = await startDaemon(files.config)
    await goOn('and this one')
    const cli = path.join(ROOT, 'dist/src/cli/main.js')
    await mustRun(process.execPath, [cli, '-c', path.join(first.folder, 'config.yaml'), 'db', 'migrate'])
    await goOn('the schema of this release')
    for (const [which, former] of instances.entries()) {
      assert.equal(await former.stop(), 0)
      const next = await startTestService({ config: config(http01Port), continueFrom: former })
      cleanups.push(() => next.dispose())
      for (const { proxy, ports } of lanes)
        await until(`${proxy.command} uses both instances`, () => proxy.usesAll(folder, ports))
      await goOn(`instance ${which + 1} of this release`)
    }
    await goOn('all of this release')
    await endLanes(lanes, (line) => t.diagnostic(`upgrade behind ${line}`))
  })
})
