/** The signer that the service starts for itself, from its own configuration. */

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, before, describe, test } from 'node:test'
import pino from 'pino'
import { readSharedSecret } from '../../signer/protocol/handshake.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { AuditChainInUse, findRunningSigner } from '../../src/ca/signer-place.ts'
import { type SignerProcess, startSignerProcess } from '../../src/ca/signer-process.ts'
import { signerProgram } from '../../src/settings/signer-settings.ts'
import { identifyProcess } from '../../src/shared/lib/processes.ts'
import { DAY_MS, makeAuthority } from '../signer/authority.ts'
import { noRoom, withFs } from '../signer/full-disk.ts'
import { now, rawTbsList } from '../signer/raw-tbs-list.ts'
import { WAIT_MS } from '../support/patience.ts'
import { canMount } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { aConfig, type Tree } from '../unit/config/support.ts'

const timeoutMs = WAIT_MS

describe('the signer of the service', () => {
  const authority = makeAuthority()
  const log = pino({ level: 'silent' })
  const folder = temporaryFolder()
  let signer: SignerProcess
  before(() => {
    writeFileSync(at('ca.pem'), authority.certificatePem)
    writeFileSync(at('ca.key'), authority.privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 })
  })
  afterEach(() => signer?.stop(timeoutMs))

  const at = (name: string) => path.join(folder, name)

  const auditFile = () => at('signer-audit.jsonl')
  /** The folder of a process that has, or had, a signer on the audit chain. */
  const placeOf = (pid: number, startedAt = identifyProcess(pid)?.startedAt) =>
    `${auditFile()}.signer-${pid}.${startedAt}`

  async function start(patch: Tree = {}, waitMs = timeoutMs): Promise<void> {
    const internal = { root_cert_path: at('ca.pem'), root_key_path: at('ca.key') }
    signer = await startSignerProcess(signerProgram(aConfig({ ca: { internal }, ...patch })), log, waitMs)
  }

  test('signs CRLs that are valid for as long as the configuration says, and none that is for longer', async () => {
    const days = 100
    await start({ crl: { enabled: true, next_update_seconds: days * 86_400 } })
    const backend = new SignerBackend({
      socketPath: signer.socketPath,
      secret: readSharedSecret(signer.secretFile),
    })
    const signFor = (validityMs: number, number: bigint) => {
      const tbs = rawTbsList(authority, { nextUpdate: now(validityMs), number })
      const list = { signatureAlgorithm: authority.algorithm, length: tbs.length, pieces: whole(tbs) }
      return backend.signCrl('default', list, { timeoutMs, requester: 'crl' })
    }
    try {
      await signFor(days * DAY_MS, 1n)
      await assert.rejects(signFor((days + 2) * DAY_MS, 2n), /nextUpdate is .* are allowed/)
    } finally {
      await backend.close()
    }
  })

  test('has its socket, secret and configuration beside its audit chain, closed to others, while it runs', async () => {
    await start()
    const folder = path.dirname(signer.socketPath)
    assert.equal(folder, placeOf(process.pid))
    assert.equal(path.dirname(signer.secretFile), folder)
    assert.equal(statSync(folder).mode & 0o777, 0o700)
    assert.deepEqual(readdirSync(folder).sort(), ['secret', 'signer.sock', 'signer.yaml'])
    await signer.stop(timeoutMs)
    assert.ok(!existsSync(folder))
  })

  test('where the path is too long for a socket, has nothing but its socket elsewhere', async () => {
    const long = at('long'.repeat(30))
    mkdirSync(long)
    const internal = { root_cert_path: at('ca.pem'), root_key_path: at('ca.key') }
    await start({ ca: { internal, signer: { audit_file: path.join(long, 'audit.jsonl') } } })
    assert.equal(path.dirname(path.dirname(signer.secretFile)), long)
    const elsewhere = path.dirname(signer.socketPath)
    assert.deepEqual(readdirSync(elsewhere), ['signer.sock'])
    await signer.stop(timeoutMs)
    assert.deepEqual([existsSync(elsewhere), existsSync(path.dirname(signer.secretFile))], [false, false])
  })

  test('takes away what killed services have left, also where another process has got the id', async () => {
    const { pid: dead } = spawnSync('true')
    const folders = [placeOf(dead, '1'), `${auditFile()}.signer-${dead}`, placeOf(process.ppid, '1')]
    for (const one of folders) mkdirSync(one)
    await start()
    assert.deepEqual(folders.map(existsSync), [false, false, false])
  })

  test('starts only when no other process has a signer on the audit chain', async () => {
    const other = placeOf(process.ppid)
    mkdirSync(other)
    await assert.rejects(
      start({}, 0),
      (error) => error instanceof AuditChainInUse && error.message.startsWith(`${other}: process ${process.ppid} `),
    )
    assert.deepEqual([existsSync(other), existsSync(placeOf(process.pid))], [true, false])
    const starting = start()
    await until('its folder', () => existsSync(placeOf(process.pid)))
    assert.deepEqual(readdirSync(placeOf(process.pid)), [], 'it waits')
    rmSync(other, { recursive: true })
    await starting
    assert.ok(existsSync(signer.socketPath))
  })

  test('leaves that of another container alone while it lives, which nobody sees by its process', {
    skip: !canMount && 'needs to make namespaces',
  }, async () => {
    const module = new URL('../../src/ca/signer-place.js', import.meta.url).href
    const program = `const { makePlace } = await import('${module}')
      console.log((await makePlace('${auditFile()}', 0)).secretFile)
      process.stdin.resume()`
    const command = ['-pf', '--mount-proc', process.execPath, '--input-type=module', '-e', program]
    const container = spawn('unshare', command, { stdio: ['pipe', 'pipe', 'inherit'] })
    const [secretFile] = await once(container.stdout, 'data')
    const other = path.dirname(String(secretFile).trim())
    await assert.rejects(start({}, 0), AuditChainInUse)
    assert.ok(existsSync(other))
    container.stdin.end()
    await once(container, 'exit')
    assert.ok(existsSync(other), 'as after a kill')
    await start()
    assert.ok(!existsSync(other))
  })

  test('that of another process is found once it listens', async () => {
    assert.equal(findRunningSigner(auditFile()), undefined)
    const other = placeOf(process.ppid)
    mkdirSync(other)
    try {
      assert.equal(findRunningSigner(auditFile()), 'starting')
      const place = { socketPath: path.join(other, 'signer.sock'), secretFile: path.join(other, 'secret') }
      const config = JSON.stringify({ socket: place.socketPath, secret_file: place.secretFile })
      writeFileSync(path.join(other, 'signer.yaml'), config.slice(0, 20))
      assert.equal(findRunningSigner(auditFile()), 'starting')
      writeFileSync(path.join(other, 'signer.yaml'), config)
      assert.equal(findRunningSigner(auditFile()), 'starting')
      writeFileSync(place.socketPath, '')
      assert.deepEqual(findRunningSigner(auditFile()), place)
    } finally {
      rmSync(other, { recursive: true })
    }
  })

  test('whose audit chain cannot be written is a sentence', async () => {
    const internal = { root_cert_path: at('ca.pem'), root_key_path: at('ca.key') }
    const away = { ca: { internal, signer: { audit_file: at('nowhere/audit.jsonl') } } }
    await assert.rejects(
      start(away),
      /ENOENT.*; the folder of the audit chain \(ca\.signer\.audit_file\) has to be there/,
    )
  })

  test('whose disk is full is told so, without a word about its folder, and leaves nothing', async (context) => {
    const fail = (error: Error) => () => {
      throw error
    }
    await withFs(context, 'mkdirSync', fail(noRoom()), () =>
      assert.rejects(start(), /signer-[\d.]+: ENOSPC, no space is left$/),
    )
    await withFs(context, 'writeFileSync', fail(noRoom()), () => assert.rejects(start(), /ENOSPC/))
    assert.ok(!existsSync(placeOf(process.pid)))
  })

  test('that was just started again, and has not been heard of yet, is stopped like any other', async () => {
    await start()
    const first = signer.pid()!
    rmSync(signer.socketPath)
    process.kill(first, 'SIGKILL')
    await until('a second signer', () => signer.pid() !== first)
    // Its line "signer ready" waits to be read when the signal is sent.
    while (!existsSync(signer.socketPath)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
    let isOver = false
    const stopping = signer.stop(timeoutMs).then(() => {
      isOver = true
    })
    await until('the end of the wait', () => isOver)
    await stopping
  })
})

async function* whole(tbs: Buffer): AsyncIterable<Buffer> {
  yield tbs
}
