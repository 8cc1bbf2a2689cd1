/** What the files of other CAs must hold at the start. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { receptionPolicy } from '../../../src/settings/backend-settings.ts'
import { encodePem } from '../../../src/shared/pki/pem.ts'
import { makeAuthority } from '../../signer/authority.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { aConfig } from '../config/support.ts'

const ROOT = makeAuthority().certificate

describe('the trust anchors of another CA', () => {
  const folder = temporaryFolder()

  function policyWith(text: string) {
    const file = path.join(folder, 'anchors.pem')
    writeFileSync(file, text)
    return receptionPolicy(aConfig({ ca: { external: { trust_anchors: [file] } } }))
  }

  test('are all certificates of their files', () => {
    const pem = encodePem('CERTIFICATE', ROOT)
    assert.deepEqual(policyWith(pem + pem).trustAnchors.get('external'), [ROOT, ROOT])
  })

  for (const [what, text] of [
    ['nothing', ''],
    ['text', 'the root comes here\n'],
    ['a key', encodePem('PRIVATE KEY', Buffer.of(0x30, 0))],
    ['no certificate in its block', encodePem('CERTIFICATE', Buffer.of(0x30, 0))],
  ] as const)
    test(`a file with ${what} stops the start, since every chain would pass`, () =>
      assert.throws(() => policyWith(text), /^Error: ca\.external\.trust_anchors: .*anchors\.pem/))

  test('a file that is not there is named with its key', () => {
    const trust_anchors = [path.join(folder, 'none.pem')]
    const config = aConfig({ ca: { acme_proxy: { trust_anchors } } })
    assert.throws(() => receptionPolicy(config), /^Error: ca\.acme_proxy\.trust_anchors: .*none\.pem.*no such file/)
  })
})
