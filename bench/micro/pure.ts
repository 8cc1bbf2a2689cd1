/** Micro-benchmarks of what a front computes: the gate's JWS, DER of requests and certificates, the batcher, frames to the signer. */

import { randomBytes } from 'node:crypto'
import { encodeFrame, FrameReader, KIND, METHODS } from '../../signer/protocol.ts'
import { createBatcher } from '../../src/shared/lib/batcher.ts'
import { parseCsr, verifyCsrSignature } from '../../src/shared/pki/csr.ts'
import { lintTbsCertificate } from '../../src/shared/pki/lint.ts'
import { encodeCommonName } from '../../src/shared/pki/name.ts'
import { buildTbsCertificate, parseTbsCertificate } from '../../src/shared/pki/tbs-certificate.ts'
import { restoreAccountKey } from '../../src/shared/protocol/jwk.ts'
import { parseJws } from '../../src/shared/protocol/jws.ts'
import { EVERY_ALGORITHM, verifySignature } from '../../src/shared/protocol/jws-algorithms.ts'
import { csrMaker, spkiHex } from '../client/csr.ts'
import { headerPrefix, signJws, thumbprint } from '../client/jws.ts'
import { keyMaker } from '../client/signer.ts'
import { type MicroGroup, type MicroResult, measureRounds, measureSync } from './micro.ts'

const DAY_MS = 86_400_000
const NAME = 'host-17.bench.example.test'
const COMMANDS = 64

const SYNC: Readonly<Record<string, () => () => unknown>> = {
  'jws-parse': () => {
    const { body } = aRequest()
    return () => parseJws(body, EVERY_ALGORITHM)
  },
  'jws-verify': () => {
    const { body, publicKey } = aRequest()
    return () => {
      const { signingInput, signature } = parseJws(body, EVERY_ALGORITHM)
      if (!verifySignature('ES256', publicKey, signingInput, signature)) throw new Error('a good signature was refused')
    }
  },
  'key-import': () => {
    const { jwk, label } = aRequest()
    return () => restoreAccountKey(jwk, label)
  },
  'csr-parse': () => {
    const der = aCsr()
    return () => parseCsr(der)
  },
  'csr-verify': () => {
    const csr = parseCsr(aCsr())
    return () => {
      if (!verifyCsrSignature(csr)) throw new Error('a good signature was refused')
    }
  },
  'tbs-build': () => {
    const input = aCertificate()
    return () => buildTbsCertificate(input)
  },
  'tbs-parse': () => {
    const der = buildTbsCertificate(aCertificate())
    return () => parseTbsCertificate(der)
  },
  'tbs-lint': () => {
    const tbs = parseTbsCertificate(buildTbsCertificate(aCertificate()))
    return () => lintTbsCertificate(tbs)
  },
  'frame-encode': () => () => encodeFrame(aFrame),
  'frame-read': () => {
    const bytes = encodeFrame(aFrame)
    const reader = new FrameReader(1_048_576)
    const ignore = () => undefined
    return () => reader.push(bytes, ignore)
  },
}

export const PURE: MicroGroup = {
  names: [...Object.keys(SYNC), 'batcher'],
  summary: 'what a front computes',
  async run(wanted, { milliseconds }, done) {
    for (const [name, prepare] of Object.entries(SYNC))
      if (wanted(name)) await done(measureSync(name, milliseconds, prepare()))
    if (wanted('batcher')) await done(await measureBatcher(milliseconds))
  },
}

/** Commands that arrive together, over a flush that does nothing. */
async function measureBatcher(milliseconds: number): Promise<MicroResult> {
  const command = createBatcher<number, number>(async (commands) => commands, {
    ...{ maxBatch: COMMANDS, maxConcurrent: 1, maxWaiting: COMMANDS, maxStandstillMs: 1000 },
    retryable: () => false,
  })
  const numbers = Array.from({ length: COMMANDS }, (_, index) => index)
  const round = async () => (await Promise.all(numbers.map(command))).length
  return { ...(await measureRounds('batcher', milliseconds, round)), batch: COMMANDS }
}

/** New-order as the generator sends it. */
function aRequest() {
  const key = keyMaker('openssl')()
  const prefix = headerPrefix({ kid: 'https://ca.example.test:8443/acct/019a0000-0000-7000-8000-000000000000' })
  const payload = `{"identifiers":[{"type":"dns","value":"${NAME}"}]}`
  const nonce = randomBytes(32).toString('base64url')
  const body = Buffer.from(signJws(key, prefix, nonce, 'https://ca.example.test:8443/new-order', payload))
  const { crv, kty, x, y } = key.jwk
  const jwk = JSON.stringify({ crv, kty, x, y })
  const label = thumbprint(key.jwk)
  return { body, jwk, label, publicKey: restoreAccountKey(jwk, label).publicKey }
}

function aCsr(): Buffer {
  return Buffer.from(csrMaker(keyMaker('openssl')())(NAME), 'base64url')
}

function aCertificate() {
  const notBefore = new Date(Math.floor(Date.now() / 1000) * 1000)
  return {
    serialNumber: Buffer.concat([Buffer.of(1), randomBytes(15)]),
    issuerNameDer: encodeCommonName('Bench'),
    authorityKeyIdentifier: randomBytes(20),
    signatureAlgorithm: 'SHA256withECDSA' as const,
    notBefore,
    notAfter: new Date(notBefore.getTime() + 90 * DAY_MS - 1000),
    spki: Buffer.from(spkiHex(keyMaker('openssl')()), 'hex'),
    dnsNames: [NAME],
    ipAddresses: [],
    keyUsages: ['digital_signature'] as const,
    extendedKeyUsages: ['server_auth'] as const,
  }
}

const aFrame = {
  kind: KIND.request,
  id: 7,
  method: METHODS.signCertificate.code,
  timeoutMs: 10_000,
  meta: { issuer: 'default', requester: '019a0000-0000-7000-8000-000000000000' },
  payload: Buffer.alloc(450, 0x30),
}
