/**
 * Plain requests for certificates (RFC 2986): the library for all others is two hundred modules, which most tests have
 * no other use for.
 */

import { sign } from 'node:crypto'
import { isIP } from 'node:net'
import { SIGNATURE_ALGORITHMS } from '../../src/shared/pki/algorithms.ts'
import { buildCsr } from '../../src/shared/pki/csr.ts'
import type { TestKey } from './keys.ts'

/** DER of a request with an empty subject and these names and addresses. */
export function plainCsr(
  { spki, privateKey, signatureAlgorithm }: Pick<TestKey, 'spki' | 'privateKey' | 'signatureAlgorithm'>,
  names: readonly string[],
): Buffer {
  const { hash } = SIGNATURE_ALGORITHMS[signatureAlgorithm]
  return buildCsr({
    spki,
    signatureAlgorithm,
    dnsNames: names.filter((name) => isIP(name) === 0),
    ipAddresses: names.filter((name) => isIP(name) !== 0),
    sign: (info) => sign(hash, info, privateKey),
  })
}
