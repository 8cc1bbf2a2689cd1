/** What the doctor makes of facts that a stand cannot have at will. */

import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { judgeKey, judgeRunning } from '../../../src/doctor/checks/configuration.ts'
import { judgeAdministrators, judgeEnd } from '../../../src/doctor/checks/credentials.ts'
import { judgeAge, judgeFetch, judgeNumber } from '../../../src/doctor/checks/crl.ts'
import { judgeConnections, judgeReplication, judgeVacuum } from '../../../src/doctor/checks/database.ts'
import { judgeDisk, otherDisksOf } from '../../../src/doctor/checks/disk.ts'
import { judgeUnfinished } from '../../../src/doctor/checks/operation.ts'
import { judgeSigned } from '../../../src/doctor/checks/proxy.ts'
import { judgeAddress } from '../../../src/doctor/checks/proxy-client.ts'
import { judgeClock, judgeDescriptors, judgeHealth, judgeInstances } from '../../../src/doctor/checks/service.ts'
import { judgeIssuer, judgeToken } from '../../../src/doctor/checks/signer.ts'
import { judgeChain, judgeExpiry, judgeUnread } from '../../../src/doctor/checks/tls.ts'
import { judgeServer } from '../../../src/doctor/checks/upstream.ts'
import { judgeDnssec, judgeOwnName } from '../../../src/doctor/checks/validation.ts'
import { diskOf } from '../../../src/doctor/facts/files.ts'
import type { Possible, Verdict } from '../../../src/doctor/verdict.ts'
import { canMount, startDisk } from '../../support/hosts/small-disk.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const NOW = new Date('2026-06-01T00:00:00Z')
const inDays = (days: number) => new Date(NOW.getTime() + days * 86_400_000)

const is = (possible: Possible | readonly Verdict[], ...results: Verdict['result'][]) => {
  const found = possible ? [possible].flat() : []
  assert.deepEqual(
    found.map(({ result }) => result),
    results,
  )
  for (const { result, mend } of found)
    if (result === 'failure' || result === 'warning') assert.ok(mend, 'says what to do')
}

const certificate = (from: number, to: number) => ({
  validFrom: inDays(from).toUTCString(),
  validTo: inDays(to).toUTCString(),
})

describe('the doctor judges', () => {
  test('clocks by what is certain: a slow answer is no wrong clock', () => {
    is(judgeClock('the database', 1_500, 10), 'ok')
    is(judgeClock('the database', -5_000, 10), 'warning')
    is(judgeClock('the database', 5_000, 4_000), 'ok')
    is(judgeClock('the database', 120_000, 500), 'failure')
  })

  test('an issuer by what is left of it', () => {
    const issuer = (days: number) => ({ id: 'default', notBefore: inDays(-100), notAfter: inDays(days) })
    is(judgeIssuer(issuer(400), 397, NOW), 'ok')
    is(judgeIssuer(issuer(60), 397, NOW), 'warning')
    is(judgeIssuer(issuer(10), 397, NOW), 'failure')
    is(judgeIssuer(issuer(-1), 397, NOW), 'failure')
    is(judgeIssuer({ id: 'new', notBefore: inDays(1), notAfter: inDays(400) }, 397, NOW), 'failure')
  })

  test('a certificate by its own length: one of six days is not about to end', () => {
    is(judgeExpiry(certificate(-2, 4), NOW, true), 'ok')
    is(judgeExpiry(certificate(-85, 5), NOW, false), 'warning')
    is(judgeExpiry(certificate(-90, -1), NOW, false), 'failure')
    is(judgeExpiry(certificate(1, 90), NOW, false), 'failure')
  })

  test('a chain as unknown where nobody here has the root', () => {
    is(judgeChain({ problem: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, false), 'unknown')
    is(judgeChain({ problem: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, true), 'failure')
    is(judgeChain({ problem: 'CERT_HAS_EXPIRED' }, true), 'ok')
  })

  test('a wrong key under the right label as what it is, not as a token that is away', () => {
    const reason = 'the key in the token is not the key of the issuer certificate'
    const verdict = judgeToken({ issuer: 'default', status: 'away', since: NOW.toISOString(), reason })
    is(verdict, 'failure')
    assert.match(verdict.says, /since \S+: the key in the token is not the key/)
    assert.doesNotMatch(verdict.says, /away/)
  })

  test('a certificate that ended in its file: no restart, which would serve it', () => {
    is(judgeUnread('cert.pem', certificate(-1, 80), NOW), 'warning')
    const ended = judgeUnread('cert.pem', certificate(-90, -1), NOW)
    is(ended, 'failure')
    assert.match(ended.mend ?? '', /do not restart the service before/)
  })

  test('instances by what they share', () => {
    const one = { instances: 1, isAlive: true, nonces: 'memory', limits: 'memory' } as const
    is(judgeInstances(one), 'ok')
    is(judgeInstances({ ...one, instances: 2 }), 'failure')
    is(judgeInstances({ ...one, instances: 2, nonces: 'database' }), 'failure')
    is(judgeInstances({ ...one, instances: 2, nonces: 'database', limits: 'database' }), 'ok')
    is(judgeInstances({ ...one, instances: 2, nonces: 'database', limits: undefined }), 'ok')
    is(judgeInstances({ ...one, instances: 0, isAlive: false }), 'failure')
  })

  test('health by each part, and mail as what can wait', () => {
    const checks = { database: 'pool_exhausted', ca_backend: { status: 'ok' }, smtp: { status: 'error' }, workers: {} }
    is(judgeHealth({ checks }), 'failure', 'warning')
    is(judgeHealth({ checks: { crl: { status: 'ok' } } }), 'ok')
  })

  test('issuances as stuck once they are older than they may be', () => {
    const none = { count: 0, failures: 0 }
    is(judgeUnfinished({ count: 3, oldestSeconds: 20 }, none, 600), 'ok')
    is(judgeUnfinished({ count: 3, oldestSeconds: 601 }, none, 600), 'failure')
    is(judgeUnfinished({ count: 0, oldestSeconds: 0 }, { count: 4, failures: 3 }, 600), 'warning')
  })

  test('open files by the sum of what may want them', () => {
    is(judgeDescriptors(1_024, [['server.overload.max_connections', 8_192]]), 'warning')
    is(judgeDescriptors(65_536, [['server.overload.max_connections', 8_192]]), 'ok')
  })

  test('replicas by lag, and says where the role may not see them', () => {
    const replica = { name: 'one', state: 'streaming', sync: 'sync', lagBytes: 0 }
    is(judgeReplication('one', [replica]), 'ok')
    is(judgeReplication('', [{ ...replica, sync: 'async', lagBytes: 2 ** 30 }]), 'warning')
    is(judgeReplication('one', [{ ...replica, sync: 'async' }]), 'failure')
    is(judgeReplication('one', [{ ...replica, state: null }]), 'unknown')
  })

  test('a database by its rows, ids and connections', () => {
    is(
      judgeVacuum({ isOff: false, bloated: [{ name: 'orders', dead: '2000000' }], age: 1_500_000_000 }),
      'warning',
      'failure',
    )
    const server = { connections: 12, allowed: 100, reserved: 3, instances: 2 }
    is(judgeConnections({ ...server, each: 20 }), 'ok')
    is(judgeConnections({ ...server, each: 60 }), 'warning')
  })

  test('a list by its age and its number', () => {
    const list = { thisUpdate: inDays(-0.01), nextUpdate: inDays(1) }
    is(judgeAge('http://crl', list, NOW, 7_200_000), 'ok')
    is(judgeAge('http://crl', { ...list, thisUpdate: inDays(-0.5) }, NOW, 7_200_000), 'failure')
    is(judgeAge('http://crl', { ...list, thisUpdate: inDays(0.5) }, NOW, undefined), 'failure')
    is(judgeNumber('http://crl', 5n, 5n), 'ok')
    is(judgeNumber('http://crl', 4n, 5n), 'warning')
    is(judgeNumber('http://crl', 6n, 5n), 'failure')
    is(judgeFetch('https://crl', { failure: 'refused', who: 'crl:80' }), 'failure')
  })

  test('a proxy by the address that the service sees', () => {
    const seen = { own: '203.0.113.5', isProxy: true, trusted: ['10.0.0.1'] }
    is(judgeAddress({ ...seen, seen: '203.0.113.5' }), 'ok')
    is(judgeAddress({ ...seen, seen: '10.0.0.1' }), 'failure')
    is(judgeAddress({ ...seen, seen: '192.0.2.77' }), 'failure')
    is(judgeAddress({ ...seen, seen: '198.51.100.9' }), 'warning')
    is(judgeAddress({ ...seen, seen: '10.0.0.9', isProxy: false }), 'failure')
    const body = Buffer.from('{"type":"urn:ietf:params:acme:error:badNonce","detail":"unknown nonce"}')
    const [{ says }] = [judgeSigned({ status: 400, headers: {}, body })]
    assert.match(says, /400 badNonce: unknown nonce/)
    is(judgeSigned({ status: 429, headers: {}, body }), 'unknown')
  })

  test('name servers only by what they know', () => {
    is(judgeDnssec('192.0.2.53', { failure: 'no answer' }), 'unknown')
    is(judgeOwnName('192.0.2.53', 'acme.test', [{ failure: 'no answer' }]), 'unknown')
  })

  test('servers of others by their certificates, and tells nobody the rest of a URL', () => {
    const reached = { problem: undefined, validTo: inDays(30).toUTCString() }
    const judge = (facts: Parameters<typeof judgeServer>[2]) =>
      judgeServer('hooks', 'https://siem.test', facts, undefined, NOW)
    is(judge(reached), 'ok')
    is(judge({ ...reached, validTo: inDays(3).toUTCString() }), 'warning')
    is(judge({ ...reached, problem: 'SELF_SIGNED_CERT_IN_CHAIN' }), 'failure')
    is(judge({ failure: 'ECONNREFUSED' }), 'failure')
  })

  test('disks that links of the data directory lead to', { skip: !canMount && 'needs to mount a tmpfs' }, async (t) => {
    const folder = temporaryFolder()
    mkdirSync(path.join(folder, 'pg_tblspc'))
    mkdirSync(path.join(folder, 'beside'))
    symlinkSync(path.join(folder, 'beside'), path.join(folder, 'pg_tblspc', '16384'))
    assert.match(JSON.stringify(otherDisksOf(folder)), /"unknown".*pg_wal and tablespaces were not looked at: ENOENT/)
    mkdirSync(path.join(folder, 'wal'))
    const disk = await startDisk(path.join(folder, 'wal'), 4096)
    t.after(() => disk.stop())
    symlinkSync(disk.folder, path.join(folder, 'pg_wal'))
    assert.deepEqual(otherDisksOf(folder).length, 1)
    assert.equal(diskOf(String(otherDisksOf(folder)[0])).totalBytes, 4096)
  })

  test('disks by bytes, share and files', () => {
    const disk = { folder: '/var', totalBytes: 100 * 2 ** 30, freeBytes: 50 * 2 ** 30, freeFiles: 0.5 }
    is(judgeDisk(disk, ''), 'ok')
    is(judgeDisk({ ...disk, freeBytes: 4 * 2 ** 30 }, ''), 'warning')
    is(judgeDisk({ ...disk, freeBytes: 2 ** 20 }, ''), 'failure')
    is(judgeDisk({ ...disk, freeFiles: 0.01 }, ''), 'warning')
  })

  test('keys by who has them', () => {
    const key = { file: '/k', kind: 'file', mode: 0o600, uid: 1000, gid: 1000, modifiedAt: NOW } as const
    is(judgeKey(key, 1001))
    is(judgeKey(key, undefined))
    is(judgeKey(key, 1000), 'failure')
    is(judgeKey({ ...key, mode: 0o640 }, 1001), 'failure')
  })

  test('what ends, and who can get in', () => {
    is(judgeEnd('it', { validTo: inDays(60).toUTCString() }, 'renew', NOW))
    is(judgeEnd('it', { validTo: inDays(20).toUTCString() }, 'renew', NOW), 'warning')
    is(judgeEnd('it', { validTo: inDays(2).toUTCString() }, 'renew', NOW), 'failure')
    is(judgeAdministrators(0, null), 'failure')
    is(judgeRunning(inDays(1), NOW, 'config.yaml'), 'warning')
    is(judgeRunning(inDays(-1), NOW, 'config.yaml'), 'ok')
  })
})
