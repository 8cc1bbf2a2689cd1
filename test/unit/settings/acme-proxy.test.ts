/** Which setting of the backend each key of `ca.acme_proxy` becomes, and what seals the key of the upstream account. */

import assert from 'node:assert/strict'
import { readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { parseConfigText } from '../../../src/config/load.ts'
import { acmeProxySettings, upstreamAccountBox } from '../../../src/settings/acme-proxy-settings.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { aConfig } from '../config/support.ts'

const folder = temporaryFolder()

describe('the seal of the upstream account', () => {
  function box(storagePath: string) {
    const text = JSON.stringify({
      server: { external_url: 'https://ca.example.com' },
      database: { database: 'chancery', user: 'chancery' },
      ca: {
        signer: { socket: '/run/signer.sock', secret_file: '/etc/signer.secret' },
        acme_proxy: { storage_path: storagePath },
      },
    })
    const parsed = parseConfigText(text, { format: 'json', env: {} })
    assert.ok(parsed.ok, JSON.stringify(parsed))
    return upstreamAccountBox(parsed.config)
  }

  test('is made once, for its owner only, with nothing beside it', () => {
    const place = path.join(folder, 'made')
    const sealed = box(place).seal(Buffer.from('key'), 'row')
    assert.deepEqual(box(place).open(sealed, 'row'), Buffer.from('key'))
    assert.deepEqual(readdirSync(place), ['seal.key'])
    assert.equal(statSync(path.join(place, 'seal.key')).mode & 0o777, 0o600)
  })

  for (const bytes of [0, 31])
    test(`with ${bytes} bytes is refused, since others could guess it`, () => {
      const place = path.join(folder, `short-${bytes}`)
      box(place)
      truncateSync(path.join(place, 'seal.key'), bytes)
      assert.throws(
        () => box(place),
        /seal\.key seals the upstream account and is not usable: it has fewer than 32 bytes/,
      )
    })
})

test('each key of ca.acme_proxy becomes a setting of the backend', () => {
  const roots = path.join(folder, 'roots.pem')
  writeFileSync(roots, 'roots')
  const acme_proxy = {
    directory_url: 'https://up.test/directory',
    email: 'pki@up.test',
    challenge_type: 'http-01',
    eab_kid: 'kid',
    eab_hmac_key: 'AAEC',
    proxy_url: 'http://proxy.test:3128',
    verify_ssl: false,
    ca_cert_path: roots,
    timeout_seconds: 11,
    order_ready_timeout: 12,
    max_retries: 13,
    max_concurrent_orders: 14,
  }
  assert.deepEqual(acmeProxySettings(aConfig({ ca: { backend: 'acme_proxy', acme_proxy } }).ca), {
    account: { directoryUrl: 'https://up.test/directory', email: 'pki@up.test' },
    binding: { kid: 'kid', hmacKey: Buffer.of(0, 1, 2) },
    http: { verify: false, extraRoots: 'roots', proxyUrl: 'http://proxy.test:3128' },
    challengeType: 'http-01',
    orderTimeoutMs: 11_000,
    readyTimeoutMs: 12_000,
    maxRetries: 13,
    maxOrders: 14,
  })
})
