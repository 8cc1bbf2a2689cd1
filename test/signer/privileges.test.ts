/** The daemon gives up root before it opens its socket. Only root can show it. */

import assert from 'node:assert/strict'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { leafTbs, makeAuthority, type SignerFiles, writeSignerFiles } from './authority.ts'
import { startDaemon } from './daemon.ts'

const NOBODY = 65_534
const skip = process.getuid?.() === 0 ? false : 'only root can give up root'
const authority = makeAuthority()

async function withFiles(yaml: string, work: (files: SignerFiles) => Promise<void>): Promise<void> {
  const files = writeSignerFiles({ default: authority }, yaml)
  try {
    await work(files)
  } finally {
    rmSync(files.folder, { recursive: true })
  }
}

describe('a signer started as root', { skip }, () => {
  test('becomes the configured user for good, and signs with a key that this user cannot read', () =>
    withFiles('user: nobody\ngroup: nogroup\n', async (files) => {
      chownSync(files.folder, NOBODY, NOBODY)
      const daemon = await startDaemon(files.config)
      try {
        const status = readFileSync(`/proc/${daemon.process.pid}/status`, 'utf8')
        assert.match(status, /^Uid:\t65534\t65534\t65534\t65534$/m)
        assert.match(status, /^Gid:\t65534\t65534\t65534\t65534$/m)
        assert.match(status, /^Groups:\t65534 ?$/m)
        for (const set of ['CapPrm', 'CapEff']) assert.match(status, new RegExp(`^${set}:\t0+$`, 'm'))
        for (const file of [files.socket, files.auditFile]) assert.equal(statSync(file).uid, NOBODY)
        assert.equal(statSync(`${files.folder}/default.key`).uid, 0)

        const client = new SignerClient({ socketPath: files.socket, secret: files.secret })
        const tbs = leafTbs(authority)
        await client.call('signCertificate', { issuer: 'default', requester: 'x' }, { timeoutMs: 60_000, payload: tbs })
        await client.close()
      } finally {
        assert.equal(await daemon.stop(), 0)
      }
      const verdict = await verifyAuditChain(files.auditFile)
      assert.ok(verdict.ok && verdict.signatures === 1, JSON.stringify(verdict))
    }))

  test('does not start as a user that is root or is not there', async () => {
    for (const [user, sentence] of [
      ['root', /root is root/],
      ['no-such-user', /could not become no-such-user/],
    ] as const) {
      await withFiles(`user: ${user}\ngroup: nogroup\n`, (files) => assert.rejects(startDaemon(files.config), sentence))
    }
  })

  test('says which key leads to a folder that this user may not use, and leaves no audit file behind', async () => {
    const closed = mkdtempSync(`${tmpdir()}/closed-`)
    try {
      for (const [line, place, sentence] of [
        [
          'socket: signer.sock',
          `socket: ${closed}/signer.sock`,
          /socket: permission denied at \S+closed-\S+ for uid 65534/,
        ],
        [
          'socket: signer.sock',
          `socket: ${closed}/deeper/signer.sock`,
          /socket: permission denied at \S+closed-\S+ for uid 65534/,
        ],
        [
          'file: audit.jsonl',
          `file: ${closed}/audit.jsonl`,
          /audit\.file: permission denied at \S+closed-\S+ for uid 65534/,
        ],
      ] as const) {
        await withFiles('user: nobody\ngroup: nogroup\n', async (files) => {
          chownSync(files.folder, NOBODY, NOBODY)
          writeFileSync(files.config, readFileSync(files.config, 'utf8').replace(line, place))
          await assert.rejects(startDaemon(files.config), sentence)
          assert.ok(!existsSync(files.auditFile))
          assert.deepEqual(readdirSync(closed), [])
        })
      }
    } finally {
      rmSync(closed, { recursive: true })
    }
  })

  test('does not start with a user and no group', () =>
    withFiles('user: nobody\n', (files) => assert.rejects(startDaemon(files.config), /set both user and group/)))
})
