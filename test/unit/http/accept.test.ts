/** The Accept header (RFC 9110 §12.5.1). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAcceptable } from '../../../src/http/message.ts'

const PEM = 'application/pem-certificate-chain'

describe('a resource with one representation', () => {
  const accepted = [
    undefined,
    '',
    '*/*',
    'application/*',
    PEM,
    'Application/PEM-Certificate-Chain',
    `application/pkix-cert, ${PEM};q=0.1`,
    'text/html;q=0, */*;q=0.01',
    `application/*;q=0, ${PEM}`,
    `${PEM};charset=utf-8`,
  ]
  for (const accept of accepted)
    test(`is sent for ${accept ?? 'no header'}`, () => assert.ok(isAcceptable(PEM, accept)))

  const refused = [
    'application/pkix-cert',
    'text/*',
    `${PEM};q=0`,
    '*/*;q=0',
    `*/*, ${PEM};q=0`,
    'application/*;q=0, */*',
    'nonsense',
    `${PEM};q=much`,
  ]
  for (const accept of refused) test(`is refused for ${accept}`, () => assert.ok(!isAcceptable(PEM, accept)))
})
