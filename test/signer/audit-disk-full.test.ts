/** A signer whose audit chain lies on a disk that really is full: a small tmpfs of its own. */

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { WAIT_MS } from '../support/patience.ts'
import { canMount, type SmallDisk, startDisk } from '../support/small-disk.ts'
import { leafTbs, makeAuthority, type SignerFiles, writeSignerFiles } from './authority.ts'
import { startDaemon } from './daemon.ts'

const timeoutMs = WAIT_MS
const DISK_BYTES = 4 * 1024 * 1024
describe('the disk of the audit chain', { skip: !canMount && 'needs to mount a tmpfs' }, () => {
  const authority = makeAuthority()
  let files: SignerFiles
  let disk: SmallDisk
  before(async () => {
    files = writeSignerFiles({ default: authority })
    const folder = path.join(files.folder, 'disk')
    mkdirSync(folder)
    disk = await startDisk(folder, DISK_BYTES)
    const yaml = readFileSync(files.config, 'utf8')
    writeFileSync(files.config, yaml.replace('file: audit.jsonl', `file: ${disk.folder}/audit.jsonl`))
  })
  after(() => {
    disk.stop()
  })

  test('fills up and is emptied: the signer says so and goes on by itself', async () => {
    const daemon = await startDaemon(files.config)
    const backend = new SignerBackend({ socketPath: files.socket, secret: files.secret })
    const sign = () => backend.signCertificate('default', leafTbs(authority), { timeoutMs, requester: 'test' })
    await sign()

    const ballast = path.join(disk.folder, 'ballast')
    const free = () => Number(statfsSync(disk.folder).bavail) * Number(statfsSync(disk.folder).bsize)
    writeFileSync(ballast, Buffer.alloc(free() - 8192))
    let given = 1
    // Two pages are left: some dozens of lines fit.
    for (let isFull = false; !isFull; ) {
      const signed = await Promise.allSettled(Array.from({ length: 20 }, sign))
      given += signed.filter(({ status }) => status === 'fulfilled').length
      for (const one of signed)
        if (one.status === 'rejected') assert.match(one.reason.message, /^audit chain stopped until there is room: /)
      isFull = signed.some(({ status }) => status === 'rejected')
    }
    await daemon.wrote(/ENOSPC.*nothing is signed until there is room for the audit chain/)
    assert.equal((await backend.health({ timeoutMs })).signing, false)
    await assert.rejects(sign(), /^CaError: audit chain stopped until there is room: ENOSPC/)

    rmSync(ballast)
    await daemon.wrote(/there is room for the audit chain again/)
    assert.equal((await backend.health({ timeoutMs })).signing, true)
    await sign()
    given += 1
    await backend.close()
    assert.equal(await daemon.stop(), 0)
    const verdict = await verifyAuditChain(path.join(disk.folder, 'audit.jsonl'))
    assert.deepEqual(verdict.ok && [verdict.signatures, verdict.repairs], [given, 0])
    assert.deepEqual(verdict.ok && [verdict.records.found, verdict.records.missing], [given, 0])
  })
})
