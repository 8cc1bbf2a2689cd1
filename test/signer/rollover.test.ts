/** SIGHUP puts the issuers of the configuration in place of the running ones, under load, and the front takes them up. */

import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import type { CaIssuer } from '../../src/ca/backend.ts'
import { until } from '../support/until.ts'
import { type Authority, leafTbs, makeAuthority, writeSignerFiles } from './authority.ts'
import { TestSigner } from './daemon.ts'

const timeoutMs = 60_000

describe('rollover', () => {
  const current = makeAuthority('P-256')
  const next = makeAuthority('P-384')
  let learned: string[][]
  const onIssuersChanged = (issuers: readonly CaIssuer[]) => learned.push(issuers.map(({ id }) => id))
  const signer = new TestSigner({ current }, { backend: { onIssuersChanged } })
  beforeEach(async () => {
    learned = []
    await signer.start()
    await signer.backend.testSign({ timeoutMs })
  })
  afterEach(() => signer.end())

  const sign = (issuer: string, authority: Authority) =>
    signer.backend.signCertificate(issuer, leafTbs(authority), { timeoutMs, requester: 'x' })

  /** The configuration of other issuers, in the place of the daemon's. */
  function configure(authorities: Record<string, Authority>, extraYaml = ''): void {
    const other = writeSignerFiles(authorities, extraYaml)
    for (const id of Object.keys(authorities))
      for (const end of ['pem', 'key'])
        copyFileSync(path.join(other.folder, `${id}.${end}`), path.join(signer.files.folder, `${id}.${end}`))
    writeFileSync(signer.files.config, readFileSync(other.config))
  }

  async function hangUp(line: string): Promise<void> {
    signer.daemon.process.kill('SIGHUP')
    await until(line, () => signer.daemon.output().includes(line))
  }

  test('a new issuer in front of the old one signs, while not one request of the old one fails', async () => {
    let stop = false
    let signed = 0
    const load = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!stop) {
          await sign('current', current)
          signed++
        }
      }),
    )
    configure({ next, current })
    await hangUp('"issuers read again"')
    await until('the front knows the new one', () => learned.length > 0)
    await sign('next', next)
    assert.match(
      signer.daemon.output(),
      /^\{"level":"info","time":"\d{4}-\d\d-\d\dT[\d:.]+Z",.*"message":"issuers read again"\}$/m,
    )
    await until('more than 100 are signed', () => signed > 100)
    stop = true
    await load
    assert.deepEqual(learned, [['next', 'current']], 'the front knows them, the new one first')
    assert.ok((await verifyAuditChain(signer.files.auditFile)).ok)
  })

  test('new issuers are told, too, where the front learns them by connecting again', async () => {
    configure({ next, current })
    await signer.restart()
    await until('the front knows the new one', () =>
      signer.backend.testSign({ timeoutMs }).then(
        () => learned.length > 0,
        () => false,
      ),
    )
    assert.deepEqual(learned, [['next', 'current']])
  })

  test('another key under the same id is refused, and the old one goes on', async () => {
    configure({ current: next })
    await hangUp('"the issuers stay as they are"')
    assert.match(signer.daemon.output(), /current: it has another key now; give the new issuer an id of its own/)
    await sign('current', current)
  })

  test('a key file that the next start would refuse is refused, under the same name', async () => {
    const file = path.join(signer.files.folder, 'current.key')
    const right = readFileSync(file)
    writeFileSync(file, next.privateKey.export({ format: 'pem', type: 'pkcs8' }))
    await hangUp('"the issuers stay as they are"')
    await sign('current', current)
    writeFileSync(file, right)
    await hangUp('"issuers read again"')
    await sign('current', current)
  })

  test('a configuration that is wrong is logged and changes nothing', async () => {
    writeFileSync(signer.files.config, 'socket: nowhere\n')
    await hangUp('"the issuers stay as they are"')
    await sign('current', current)
  })

  test('a new policy counts from then on', async () => {
    const tight = readFileSync(signer.files.config, 'utf8').replace('policy: {}', 'policy: { max_validity_days: 1 }')
    writeFileSync(signer.files.config, tight)
    await hangUp('"issuers read again"')
    await assert.rejects(sign('current', current), /valid|days/)
  })

  test('what only a restart can change is named', async () => {
    configure({ current }, 'limits: { connections: 3 }\n')
    await hangUp('"changed keys that need a restart"')
    assert.match(signer.daemon.output(), /"keys":\["limits"\]/)
  })
})
