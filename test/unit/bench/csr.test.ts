import 'reflect-metadata'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pkcs10CertificateRequest, type SubjectAlternativeNameExtension } from '@peculiar/x509'
import { csrMaker, spkiHex } from '../../../bench/client/csr.ts'
import { keyMaker, SIGNING } from '../../../bench/client/signer.ts'

const LONG_NAME = `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.test`

for (const signing of SIGNING) {
  for (const name of ['a.test', `${'n'.repeat(50)}.bench.test`, LONG_NAME]) {
    test(`a CSR by ${signing} for a name of ${name.length} octets verifies and asks for it alone`, async () => {
      const key = keyMaker(signing)()
      const csrFor = csrMaker(key)
      // Several, because the lengths of r and s vary.
      for (let i = 0; i < 20; i++) {
        const csr = new Pkcs10CertificateRequest(Buffer.from(csrFor(name), 'base64url'))
        assert.equal(await csr.verify(), true)
        assert.equal(csr.subject, '')
        assert.equal(Buffer.from(csr.publicKey.rawData).toString('hex'), spkiHex(key))
        const names = [...csr.extensions].map((extension) =>
          (extension as SubjectAlternativeNameExtension).names.toJSON(),
        )
        assert.deepEqual(names, [[{ type: 'dns', value: name }]])
      }
    })
  }
}
