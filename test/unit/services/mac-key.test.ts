/** HMAC keys of binding credentials. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawMacKey } from '../../../src/admin/eab/credential-creation.ts'

test("a key that begins with '-' is drawn again", () => {
  // 62 is '-' in base64url.
  const drawn = [Buffer.alloc(32, 62 << 2), Buffer.alloc(32, 1)]
  assert.deepEqual(
    drawMacKey(() => drawn.shift() ?? Buffer.alloc(0)),
    Buffer.alloc(32, 1),
  )
})
