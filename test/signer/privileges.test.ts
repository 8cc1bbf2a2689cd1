/** The daemon gives up root before it opens its socket. Only root can show it. */

import assert from 'node:assert/strict'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { leafTbs, makeAuthority } from './authority.ts'
import { type TestSigner, withSigner } from './daemon.ts'

const NOBODY = 65_534
const skip = process.getuid?.() === 0 ? false : 'only root can give up root'
const authority = makeAuthority()

const withFiles = (yaml: string, work: (signer: TestSigner) => Promise<void>) =>
  withSigner(work, { default: authority }, { yaml })

describe('a signer started as root', { skip }, () => {
  test('becomes the configured user for good, and signs with a key that this user cannot read', () =>
    withFiles('user: nobody\ngroup: nogroup\n', async (signer) => {
      const { files, client } = signer
      chownSync(files.folder, NOBODY, NOBODY)
      await signer.launch()
      const status = readFileSync(`/proc/${signer.daemon.process.pid}/status`, 'utf8')
      assert.match(status, /^Uid:\t65534\t65534\t65534\t65534$/m)
      assert.match(status, /^Gid:\t65534\t65534\t65534\t65534$/m)
      assert.match(status, /^Groups:\t65534 ?$/m)
      for (const set of ['CapPrm', 'CapEff']) assert.match(status, new RegExp(`^${set}:\t0+$`, 'm'))
      for (const file of [files.socket, files.auditFile]) assert.equal(statSync(file).uid, NOBODY)
      assert.equal(statSync(`${files.folder}/default.key`).uid, 0)

      const payload = leafTbs(authority)
      // What root has read stays in use.
      for (const name of ['signer.yaml', 'default.pem']) chownSync(`${files.folder}/${name}`, NOBODY, NOBODY)
      signer.daemon.process.kill('SIGHUP')
      await signer.daemon.wrote(/"issuers read again"/)
      await client.call('signCertificate', { issuer: 'default', requester: 'x' }, { timeoutMs: 60_000, payload })
      await client.close()
      assert.equal(await signer.daemon.stop(), 0)
      const verdict = await verifyAuditChain(files.auditFile)
      assert.ok(verdict.ok && verdict.signatures === 1, JSON.stringify(verdict))
    }))

  test('does not start as a user that is root or is not there', async () => {
    for (const [user, sentence] of [
      ['root', /root is root/],
      ['no-such-user', /could not become no-such-user/],
    ] as const) {
      await withFiles(`user: ${user}\ngroup: nogroup\n`, (signer) => assert.rejects(signer.launch(), sentence))
    }
  })

  test('says which key leads to a folder that this user may not use, and leaves no audit file behind', async () => {
    const closed = mkdtempSync(`${tmpdir()}/closed-`)
    try {
      for (const [key, line, place] of [
        ['socket', 'socket: signer.sock', `socket: ${closed}/signer.sock`],
        ['socket', 'socket: signer.sock', `socket: ${closed}/deeper/signer.sock`],
        ['audit\\.file', 'file: audit.jsonl', `file: ${closed}/audit.jsonl`],
      ] as const) {
        const sentence = new RegExp(`${key}: permission denied at \\S+closed-\\S+ for uid 65534`)
        await withFiles('user: nobody\ngroup: nogroup\n', async (signer) => {
          const { files } = signer
          chownSync(files.folder, NOBODY, NOBODY)
          writeFileSync(files.config, readFileSync(files.config, 'utf8').replace(line, place))
          await assert.rejects(signer.launch(), sentence)
          assert.ok(!existsSync(files.auditFile))
          assert.deepEqual(readdirSync(closed), [])
        })
      }
    } finally {
      rmSync(closed, { recursive: true })
    }
  })

  test('does not start with a user and no group', () =>
    withFiles('user: nobody\n', (signer) => assert.rejects(signer.launch(), /set both user and group/)))
})
