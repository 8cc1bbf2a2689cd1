/** Alternate chains of an upstream (Pebble) are kept: in the database, over a restart, and in what clients download. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  closeConnections,
  type Obtained,
  pemToDer,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import { startChallengeFolder } from '../support/http01-responder.ts'
import { type Pebble, startPebble } from '../support/pebble.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { a, type ScriptedDns, startDns } from '../workers/scripted-dns.ts'

const ALTERNATES = 2
/** Between root and leaf. */
const INTERMEDIATES = 2

describe('a service behind an upstream with alternate chains', {
  ...requireCommand('pebble'),
}, () => {
  let folder: string
  let dns: ScriptedDns
  let pebble: Pebble
  let roots: X509Certificate[]
  let first: TestService
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  let obtained: Obtained
  let closeWebServer: () => Promise<void>

  const configured = () => ({
    ca: {
      backend: 'acme_proxy',
      acme_proxy: {
        directory_url: pebble.directoryUrl,
        email: 'pki@chained.test',
        ca_cert_path: pebble.caFile,
        storage_path: path.join(folder, 'storage'),
        challenge_type: 'http-01',
        challenge_handler: 'file_http',
        challenge_handler_config: { webroot: folder },
        // Pebble adds it to every certificate.
        accepted: { key_purposes: ['client_auth'] },
        trust_anchors: roots.map((_, index) => path.join(folder, `root-${index}.pem`)),
      },
    },
  })

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-alternates-'))
    const challenges = path.join(folder, '.well-known', 'acme-challenge')
    mkdirSync(challenges, { recursive: true })
    dns = await startDns(({ name, type }) => ({ answers: type === 'A' ? [a(name, '127.0.0.1')] : [] }))
    pebble = await startPebble({ resolver: dns.resolver, alternateRoots: ALTERNATES, intermediates: INTERMEDIATES })
    closeWebServer = await startChallengeFolder(pebble.http01Port, challenges)
    const pems = await Promise.all(Array.from({ length: 1 + ALTERNATES }, (_, index) => pebble.root(index)))
    for (const [index, pem] of pems.entries()) writeFileSync(path.join(folder, `root-${index}.pem`), pem)
    roots = pems.map((pem) => new X509Certificate(pem))
    first = service = await startTestService({ fronts: 1, config: configured() })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
    obtained = await client.obtain(['alternates.test'], responder)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    if (service !== first) await first?.dispose()
    await closeWebServer?.()
    await pebble?.stop()
    await dns?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function checkChains(): Promise<void> {
    const { certificateUrl, der } = obtained
    const alternates = Array.from({ length: ALTERNATES }, (_, index) => `${certificateUrl}/${index + 1}`)
    assert.deepEqual((await client.post(certificateUrl)).links['alternate'], alternates)
    for (const [index, url] of [certificateUrl, ...alternates].entries()) {
      const chain = pemToDer((await client.post(url)).text).map((one) => new X509Certificate(one))
      assert.deepEqual(chain[0]?.raw, der)
      assert.equal(chain.length, 1 + INTERMEDIATES)
      for (const [at, one] of chain.entries()) {
        const above = chain[at + 1] ?? (roots[index] as X509Certificate)
        assert.ok(one.verify(above.publicKey), `certificate ${at} of chain ${index}`)
      }
    }
  }

  test('the default chain names them, and each leads to its own root', checkChains)

  test('the alternate chains are offered after a restart', async () => {
    await service.stop()
    service = await startTestService({ fronts: 1, continueFrom: first, config: configured() })
    await checkChains()
  })
})
