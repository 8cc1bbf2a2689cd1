/** What seals the key of the upstream account where no secret is configured. */

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseConfigText } from '../../../src/config/load.ts'
import { upstreamAccountBox } from '../../../src/settings/acme-proxy.ts'

describe('the seal of the upstream account', () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-seal-'))
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

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

  for (const bytes of [0, 31]) {
    test(`with ${bytes} bytes is refused, since others could guess it`, () => {
      const place = path.join(folder, `short-${bytes}`)
      box(place)
      truncateSync(path.join(place, 'seal.key'), bytes)
      assert.throws(
        () => box(place),
        /seal\.key seals the upstream account and is not usable: it has fewer than 32 bytes/,
      )
    })
  }
})
