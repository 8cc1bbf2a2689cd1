/**
 * How many signatures a second does a running signer make, over one connection with 32 requests under way?
 *
 * `npm run build && node compiled/bench/lab/signer.js SOCKET SECRET_FILE [SECONDS]`, for a signer with a key file or with
 * any number of HSM sessions. It signs with the signer's first issuer, so use a test set-up.
 */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { SignerClient, type SignerDescription } from '../../src/ca/signer-client.ts'
import type { SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { buildTbsCertificate } from '../../src/shared/pki/tbs-certificate.ts'
import { emptyHistogram, latencyOf, recordMs } from '../measure/stats.ts'

const [socketPath, secretFile, seconds = '5'] = process.argv.slice(2)
if (socketPath === undefined || secretFile === undefined) throw new Error('name the socket and the file of its secret')
const IN_FLIGHT = 32
const TIMEOUT_MS = 30_000
const DAY_MS = 86_400_000

let described: SignerDescription | undefined
const client = new SignerClient({
  socketPath,
  secret: readFileSync(secretFile),
  onConnect(description) {
    described = description
  },
})

/** Certifies the issuer's own key: any key will do here. */
function requestOf({ chain, algorithm }: SignerDescription['issuers'][0]): Buffer {
  const { tbs } = parseCertificate(chain[0]!)
  const notBefore = new Date(Math.floor(Date.now() / 1000) * 1000)
  return buildTbsCertificate({
    serialNumber: Buffer.concat([Buffer.of(1), randomBytes(15)]),
    issuerNameDer: tbs.subjectDer,
    authorityKeyIdentifier: tbs.subjectKeyIdentifier!,
    signatureAlgorithm: algorithm as SignatureAlgorithm,
    notBefore,
    notAfter: new Date(notBefore.getTime() + 7 * DAY_MS - 1000),
    spki: tbs.spki.der,
    dnsNames: ['host.bench.test'],
    ipAddresses: [],
    keyUsages: ['digital_signature'],
    extendedKeyUsages: ['server_auth'],
  })
}

try {
  await client.call('health', {}, { timeoutMs: TIMEOUT_MS })
  const issuer = (described as SignerDescription | undefined)!.issuers[0]!
  const latency = emptyHistogram()
  const end = performance.now() + 1000 * Number(seconds)
  const sign = async () => {
    while (performance.now() < end) {
      const payload = requestOf(issuer)
      const startedAt = performance.now()
      const names = { issuer: issuer.id, requester: 'bench' }
      await client.call('signCertificate', names, { timeoutMs: TIMEOUT_MS, payload })
      recordMs(latency, performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, sign))
  const { count, p50, p99 } = latencyOf(latency)
  console.log(`${issuer.id}: ${(count / Number(seconds)).toFixed(0)} signatures a second, p50 ${p50} ms, p99 ${p99} ms`)
} finally {
  await client.close()
}
