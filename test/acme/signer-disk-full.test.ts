/** A service that is started while its signer cannot record. */

import assert from 'node:assert/strict'
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { send } from '../support/acme-client.ts'
import { canMount, type SmallDisk, startDisk } from '../support/hosts/small-disk.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('a service that starts while its signer cannot record', {
  skip: !canMount && 'needs to mount a tmpfs',
}, () => {
  const signer = new TestSigner({ default: makeAuthority('P-256') }, { policyYaml: '{ max_crl_validity_days: 2 }' })
  let disk: SmallDisk
  let first: TestService
  const start = (continueFrom?: TestService) =>
    startTestService({
      fronts: 1,
      config: { ca: { signer: signer.section }, crl: { enabled: true } },
      ...(continueFrom && { continueFrom }),
    })
  const get = (name: string) => send({ method: 'GET', url: `${first.baseUrl}/${name}` })

  before(async () => {
    signer.write()
    mkdirSync(signer.at('disk'))
    disk = await startDisk(signer.at('disk'), 2 ** 20)
    const yaml = readFileSync(signer.files.config, 'utf8')
    writeFileSync(signer.files.config, yaml.replace('file: audit.jsonl', `file: ${disk.folder}/audit.jsonl`))
    await signer.launch()
    first = await start()
  })
  after(async () => {
    await first.dispose()
    await signer.end()
    disk.stop()
  })

  test('for want of room: it is not ready, serves the list that it has, and signs when there is room', async () => {
    await until('a list', async () => (await get('crl')).status === 200)
    const list = (await get('crl')).body
    await first.stop()
    const ballast = path.join(disk.folder, 'ballast')
    assert.throws(() => writeFileSync(ballast, Buffer.alloc(2 ** 20)), /ENOSPC/)
    // Some lines fit into the last block.
    const isRefused = () => signer.backend.testSign({ timeoutMs: WAIT_MS }).then(() => false, Boolean)
    await until('no room', isRefused)
    const second = await start(first)
    try {
      const { reason } = await second.waitForLog('the signer is away; nothing is signed until its disk has room')
      assert.match(String(reason), /ENOSPC/)
      assert.deepEqual([(await get('readyz')).status, (await get('directory')).status], [503, 200])
      assert.deepEqual((await get('crl')).body, list)
      rmSync(ballast)
      await until('ready', async () => (await get('readyz')).status === 200)
    } finally {
      await second.dispose()
    }
  })

  test('for any other reason: it does not start', async () => {
    appendFileSync(path.join(disk.folder, 'audit.jsonl'), '{"seq":2}\n')
    await assert.rejects(start(first), /ended \(1\).*audit chain stopped: .*somebody else writes to it/s)
  })
})
