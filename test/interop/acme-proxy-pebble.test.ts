/** The backend `acme_proxy` with Pebble as its upstream: both methods, every handler, and what Pebble makes difficult. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { callbackDns, callbackHttp, fileHttp } from '../../src/ca/acme-proxy/challenge-handler.ts'
import type { CsrBackend } from '../../src/ca/csr-backend.ts'
import { type TestProxyOptions, testProxy } from '../support/cas/acme-proxy.ts'
import { aRequest, issueThrough } from '../support/cas/csr-backend.ts'
import { type Pebble, startPebble } from '../support/cas/pebble.ts'
import { startChallengeFolder } from '../support/clients/http01-responder.ts'
import { WAIT_MS } from '../support/patience.ts'
import { requireCommand } from '../support/requirements.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { a, type ScriptedDns, startDns, txt } from '../workers/scripted-dns.ts'

const BINDING = { kid: 'kid-1', hmacKey: Buffer.alloc(32, 7) }

describe('acme_proxy with Pebble', requireCommand('pebble'), () => {
  const folder = temporaryFolder()
  let records: string
  let dns: ScriptedDns
  let pebble: Pebble
  let closeWebServer: () => Promise<void>
  const backends: CsrBackend[] = []

  const inside = (...names: string[]) => path.join(folder, ...names)
  const script = (name: string, text: string) => {
    const file = inside(name)
    writeFileSync(file, `#!/bin/sh\nset -e\n${text}\n`)
    chmodSync(file, 0o755)
    return file
  }
  const placed = () => [
    ...readdirSync(records).flatMap((name) => readdirSync(path.join(records, name))),
    ...readdirSync(inside('webroot', '.well-known', 'acme-challenge')),
  ]

  before(async () => {
    records = inside('records')
    mkdirSync(records)
    mkdirSync(inside('webroot', '.well-known', 'acme-challenge'), { recursive: true })
    dns = await startDns(({ name, type }) => {
      if (type === 'A') return { answers: [a(name, '127.0.0.1')] }
      const values = existsSync(path.join(records, name)) ? readdirSync(path.join(records, name)) : []
      return { answers: type === 'TXT' ? values.map((value) => txt(name, value)) : [] }
    })
    pebble = await startPebble({
      resolver: dns.resolver,
      rejectedNonces: 15,
      alternateRoots: 1,
      bindings: { [BINDING.kid]: BINDING.hmacKey.toString('base64url') },
    })
    closeWebServer = await startChallengeFolder(pebble.http01Port, inside('webroot', '.well-known', 'acme-challenge'))
  })
  after(async () => {
    await Promise.all(backends.map((backend) => backend.close()))
    await closeWebServer?.()
    await pebble?.stop()
    await dns?.close()
  })

  function proxy(options: Omit<TestProxyOptions, 'directoryUrl'>) {
    const made = testProxy({
      directoryUrl: pebble.directoryUrl,
      caFile: pebble.caFile,
      ...options,
      settings: { binding: BINDING, ...options.settings },
    })
    backends.push(made.backend)
    return made
  }
  const limits = { timeoutMs: WAIT_MS, concurrency: 4, passedVariables: [] }
  const byFile = () => proxy({ handler: fileHttp({ webroot: inside('webroot') }) })

  async function issued(backend: CsrBackend, names: readonly string[]) {
    const ended = await issueThrough(backend, await aRequest(names))
    assert.equal(ended.status, 'issued', JSON.stringify(ended))
    assert.ok(ended.status === 'issued')
    const [leaf] = ended.chain as [Buffer]
    assert.deepEqual(
      new X509Certificate(leaf).subjectAltName?.split(', ').sort(),
      names.map((name) => `DNS:${name}`).sort(),
    )
    return ended
  }

  test('http-01 by file_http: a chain that leads to the upstream’s root, and its alternates', async () => {
    const { backend } = byFile()
    const { chain, alternateChains = [] } = await issued(backend, ['file.test', 'www.file.test'])
    const [leaf, issuer] = chain.map((der) => new X509Certificate(der)) as [X509Certificate, X509Certificate]
    assert.ok(leaf.verify(issuer.publicKey))
    assert.ok(issuer.verify(new X509Certificate(await pebble.root()).publicKey))
    assert.equal(alternateChains.length, 1)
    const other = new X509Certificate(alternateChains[0]?.[0] as Buffer)
    assert.notEqual(other.fingerprint256, issuer.fingerprint256)
    assert.deepEqual(placed(), [])
  })

  test('dns-01 by callback_dns: a name and its wildcard, and the records are gone afterwards', async () => {
    const handler = callbackDns({
      ...limits,
      propagationMs: 0,
      placeScript: script('create', `[ "$#" = 3 ]\nmkdir -p "${records}/$2"\n: > "${records}/$2/$3"`),
      removeScript: script('delete', `[ "$#" = 2 ]\nrm -f "${records}/$2/$CHANCERY_RECORD_VALUE"`),
    })
    const { backend } = proxy({ handler, settings: { challengeType: 'dns-01' } })
    await issued(backend, ['wild.test', '*.wild.test'])
    assert.deepEqual(placed(), [])
  })

  test('http-01 by callback_http: scripts get domain, token and key authorization', async () => {
    const webroot = inside('webroot', '.well-known', 'acme-challenge')
    const handler = callbackHttp({
      ...limits,
      placeScript: script('deploy', `[ "$1" = script.test ]\nprintf %s "$3" > "${webroot}/$2"`),
      removeScript: script('cleanup', `[ "$#" = 2 ]\nrm "${webroot}/$2"`),
    })
    const { backend, notes } = proxy({ handler })
    await issued(backend, ['script.test'])
    assert.deepEqual(placed(), [])
    assert.deepEqual(notes, [])
  })

  test('a script that fails ends the order, and what it left is cleaned up', async () => {
    const handler = callbackDns({
      ...limits,
      propagationMs: 0,
      placeScript: script('broken', `mkdir -p "${records}/$2"\n: > "${records}/$2/$3"\necho no such zone >&2\nexit 3`),
      removeScript: script('withdraw', `rm -r "${records}/$2"`),
    })
    const { backend } = proxy({ handler, settings: { challengeType: 'dns-01' } })
    const ended = await issueThrough(backend, await aRequest(['broken.test']))
    assert.ok(ended.status === 'refused')
    assert.match(ended.reason, /broken ended with 3: no such zone/)
    assert.doesNotMatch(JSON.stringify(ended.problem), /zone/)
    assert.deepEqual(placed(), [])
  })

  test('a name that the upstream cannot see ends as refused, in words of our own', async () => {
    const handler = { ...fileHttp({ webroot: inside('webroot') }), place: async () => undefined }
    const { backend } = proxy({ handler })
    const ended = await issueThrough(backend, await aRequest(['unseen.test']))
    assert.ok(ended.status === 'refused')
    assert.match(ended.reason, /http-01 of unseen\.test: unauthorized/)
    assert.equal(ended.problem.detail, 'the CA behind this service did not issue the certificate')
  })

  test('a certificate is revoked with the account’s key, and a second time is no error', async () => {
    const { backend } = byFile()
    const { chain } = await issued(backend, ['revoked.test'])
    const revocation = { certificate: chain[0] as Buffer, reason: 4 }
    await backend.revoke(revocation, AbortSignal.timeout(2 * WAIT_MS))
    await backend.revoke(revocation, AbortSignal.timeout(2 * WAIT_MS))
  })

  test('12 orders at the same time, six open at once, each with its own certificate', async () => {
    const { backend } = proxy({ handler: fileHttp({ webroot: inside('webroot') }), settings: { maxOrders: 6 } })
    const names = Array.from({ length: 12 }, (_, number) => `crowd-${number}.test`)
    const all = await Promise.all(names.map((name) => issued(backend, [name])))
    const serials = new Set(all.map(({ chain }) => new X509Certificate(chain[0] as Buffer).serialNumber))
    assert.equal(serials.size, names.length)
    assert.deepEqual(placed(), [])
  })

  test('after a crash at any step the same state goes on, with one certificate', async () => {
    const { backend } = byFile()
    const request = await aRequest(['crash.test'])
    const seen = new Set<string>()
    const lines = (pattern: RegExp) => pebble.output().match(pattern)?.length ?? 0
    const finalizedBefore = lines(/Processing finalization/g)
    const issuedBefore = lines(/Issued certificate serial \w+ for order/g)
    let state: Parameters<CsrBackend['advance']>[1]
    const ended = await issueThrough(
      {
        ...backend,
        // Each step is taken twice: the answer of the first try is lost.
        async advance(wanted, current, step) {
          const name = String((current as { step?: string } | undefined)?.step)
          if (!seen.has(name)) {
            seen.add(name)
            await backend.advance(wanted, current, step).catch(() => undefined)
          }
          state = current
          return backend.advance(wanted, current, { ...step, isRepeated: true })
        },
      },
      request,
    )
    assert.equal(ended.status, 'issued', JSON.stringify({ ended, state }))
    assert.deepEqual([...seen].sort(), [
      'answer',
      'await',
      'clean',
      'collect',
      'finalize',
      'inspect',
      'place',
      'undefined',
    ])
    assert.equal(lines(/Processing finalization/g) - finalizedBefore, 1)
    assert.equal(lines(/Issued certificate serial \w+ for order/g) - issuedBefore, 1)
  })

  test('its certificate has to be trusted, unless verify_ssl is false', async () => {
    const strict = testProxy({ directoryUrl: pebble.directoryUrl, handler: fileHttp({ webroot: inside('webroot') }) })
    backends.push(strict.backend)
    await assert.rejects(strict.backend.checkHealth(AbortSignal.timeout(2 * WAIT_MS)), /SELF_SIGNED|self-signed/i)
    const lax = proxy({ handler: fileHttp({ webroot: inside('webroot') }), settings: { http: { verify: false } } })
    await lax.backend.checkHealth(AbortSignal.timeout(2 * WAIT_MS))
    const [account] = lax.accounts.values()
    assert.match(account?.url ?? '', /^https:/)
  })

  test('without the binding that it wants, the account is refused with its reason', async () => {
    const { backend } = proxy({ handler: fileHttp({ webroot: inside('webroot') }), settings: { binding: undefined } })
    await assert.rejects(backend.checkHealth(AbortSignal.timeout(2 * WAIT_MS)), /externalAccountRequired/)
  })
})
