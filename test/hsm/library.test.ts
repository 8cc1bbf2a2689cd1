/** A PKCS #11 library in this process. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { loadLibrary } from '../../signer/keys/pkcs11/library.ts'
import { makeToken, SOFTHSM_LIBRARY, type TestToken } from '../support/hosts/softhsm.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requirePackage('graphene-pk11'))

const timeoutMs = 60_000

describe('a PKCS #11 library', NEEDS, () => {
  let token: TestToken
  before(() => {
    token = makeToken()
    Object.assign(process.env, token.env)
  })
  after(() => token.remove())

  test('that is closed while it is started anew is finalized all the same', async () => {
    const library = await loadLibrary(SOFTHSM_LIBRARY)
    assert.equal(library.findToken({ label: 'ca' }).label, 'ca')
    const restarting = library.restart(timeoutMs)
    await library.close(timeoutMs)
    assert.equal(await restarting, true)
    assert.throws(() => library.findToken({ label: 'ca' }), /CKR_CRYPTOKI_NOT_INITIALIZED/)
  })
})
