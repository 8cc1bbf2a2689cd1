/**
 * A test of a backend that issues from a CSR: what can be checked without issuing, and with --issue a
 * real certificate, which is recorded without an account and revoked at once.
 */

import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { CaError } from '../../ca/backend.ts'
import type { CsrBackend, IssuanceRequest } from '../../ca/csr-backend.ts'
import type { Config } from '../../config/schema.ts'
import { namesOf } from '../../domain/certificate-names.ts'
import { certificateValidity } from '../../domain/certificate-profile.ts'
import { checkReceived, type ReceivedChain } from '../../domain/received-certificate.ts'
import { withoutSignOctet } from '../../domain/revocation.ts'
import { createCsrBackend } from '../../main/ca/csr-backends.ts'
import { expectedFor } from '../../services/received-certificates.ts'
import { issueForTest, makeTestRequest } from '../../services/test-issuance.ts'
import { receptionPolicy } from '../../settings/backend-settings.ts'
import { issuancePolicy } from '../../settings/issuance-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { hashSpki } from '../../shared/pki/algorithms.ts'
import { fingerprintSha256 } from '../../shared/pki/certificate.ts'
import { createBackendRevocationStore } from '../../store/backend-revocation-store.ts'
import { createCertificateImport } from '../../store/certificate-import.ts'
import { createCsrIssuanceStore } from '../../store/csr-issuance-store.ts'
import type { Database } from '../../store/database.ts'
import { withAdministration, withDatabase } from '../operator-database.ts'
import {
  requireRunning,
  revokeTestCertificate,
  SIGNER_TEST_NAME,
  TEST_REASON,
  type TestReport,
  type TestTarget,
} from './test-report.ts'

const ANSWER_MS = 15_000
const REVOCATION_MS = 120_000
const DAY_MS = 86_400_000
const ANY_TIME = { notBefore: new Date(0), notAfter: new Date(8.64e15) }

/** @param name of the certificate; undefined asks for none */
export async function testBackend(
  config: Config,
  target: TestTarget,
  name: string | undefined,
  report: TestReport,
  log: Logger,
): Promise<void> {
  await withDatabase(config, async (db) => {
    const backend = await createCsrBackend(target.backend, { config, db, log })
    try {
      report.passed('its settings and files can be used')
      const anchors = receptionPolicy(config).trustAnchors.get(target.backend) ?? []
      report.passed(
        anchors.length > 0
          ? `trust_anchors: ${anchors.length} root(s)`
          : 'trust_anchors: none, so every chain that agrees with itself is delivered',
      )
      await backend.checkHealth(AbortSignal.timeout(ANSWER_MS))
      report.passed('it answers')
      const request = requestFor(config, target, name ?? SIGNER_TEST_NAME, report)
      if (name === undefined) report.passed('no certificate was asked for; --issue does that, and revokes it')
      else await issueAndRevoke({ config, db, backend, target, report }, request)
    } finally {
      await backend.close()
    }
  })
}

function requestFor(
  config: Config,
  { profile: profileName }: TestTarget,
  name: string,
  report: TestReport,
): IssuanceRequest {
  const policy = issuancePolicy(config, [])
  const profile = policy.profiles.get(profileName)
  if (!profile) throw new Error(`there is no profile ${profileName}`)
  const { csr, keyType, identifiers } = makeTestRequest(name, profile, policy.csr)
  report.passed(`CSR: a ${keyType} key passes the checks of profile ${profileName}`)
  const now = new Date()
  const wanted = { notAfter: new Date(now.getTime() + DAY_MS) }
  return {
    certificateId: uuidv7(now.getTime()),
    orderId: randomUUID(),
    csr: csr.der,
    identifiers,
    profile: profileName,
    ...certificateValidity(wanted, profile.validity, now, ANY_TIME),
    validityDays: 1,
    requested: {},
    replaces: undefined,
  }
}

interface Parts {
  config: Config
  db: Database
  backend: CsrBackend
  target: TestTarget
  report: TestReport
}

async function issueAndRevoke(parts: Parts, request: IssuanceRequest): Promise<void> {
  const { config, db, backend, target, report } = parts
  await requireRunning(db)
  const { certificateId, csr, identifiers } = request
  report.notice(`asking for a certificate; if this is cut off, look at the CA for request ${certificateId}`)
  const ended = await issueForTest(backend, request, {
    timeoutMs: config.ca.deferred_signing_timeout * 1000,
    onFailure: ({ message }) => report.notice(`${message}; tried again`),
  }).catch((error: unknown) => {
    if (!(error instanceof CaError) || !error.mayHaveIssued) throw error
    throw new Error(`${error.message}; a certificate may exist there, look for request ${certificateId}`)
  })
  if (ended.status === 'refused') throw new Error(`refused: ${ended.reason}`)
  const expected = expectedFor({ csr, identifiers, ...target, requested: {} }, receptionPolicy(config))
  const verdict = checkReceived(ended.chain, expected)
  if (!verdict.ok) {
    const wrong = `what it has issued is not what was asked for: ${verdict.findings.join('; ')}`
    throw new Error(`${wrong}; ${await revokeUnrecorded(backend, ended.chain[0])}`)
  }
  report.passed('issued, and key, names, validity and chain are as they should be')
  for (const warning of verdict.received.warnings) report.passed(`lint warns: ${warning}`)
  await record(parts, request, verdict.received)
  await confirmRevocation(parts, certificateId, verdict.received.leaf.der)
}

/** Recorded without an account, and revoked here. */
async function record(
  { config, db, backend, report }: Parts,
  { certificateId }: IssuanceRequest,
  { leaf: { tbs, der }, issuers }: ReceivedChain,
): Promise<void> {
  const { serialNumber, notBefore, notAfter } = tbs
  const fingerprint = Buffer.from(fingerprintSha256(issuers[0]), 'hex')
  const issuer = { fingerprint, certificate: issuers[0], chain: issuers, alternateChains: [] }
  await createCsrIssuanceStore(db).saveIssuer(issuer)
  const certificate = {
    id: certificateId,
    accountId: undefined,
    notBefore,
    notAfter,
    der,
    serialNumber: withoutSignOctet(serialNumber),
    spkiSha256: hashSpki(tbs.spki),
    ...namesOf(tbs),
  }
  const recorded = await createCertificateImport(db).record([fingerprint], [certificate], { backend: backend.name })
  if (recorded.length === 0) throw new Error(`its serial number ${serialNumber.toString('hex')} was given before`)
  const revoked = await withAdministration(config, (administration) =>
    revokeTestCertificate(administration, { serialNumber, issuerFingerprint: fingerprint.toString('hex') }),
  )
  report.fact('certificate', { serial_number: revoked, revoked: true })
  report.passed(`recorded without an account, and revoked here: ${revoked}`)
}

/** The row of the revocation stays until the CA has confirmed, so a running service asks again. */
async function confirmRevocation({ db, backend, report }: Parts, certificateId: string, certificate: Buffer) {
  try {
    await backend.revoke({ certificate, reason: TEST_REASON }, AbortSignal.timeout(REVOCATION_MS))
  } catch (error) {
    throw new Error(`the CA has not confirmed the revocation: ${messageOf(error)}; a running service asks again`)
  }
  await createBackendRevocationStore(db).confirm(certificateId, TEST_REASON)
  report.passed(
    backend.ignoresRevocations ? 'the CA is not told of revocations' : 'the CA has confirmed the revocation',
  )
}

async function revokeUnrecorded(backend: CsrBackend, certificate: Buffer | undefined): Promise<string> {
  if (certificate === undefined || backend.ignoresRevocations) return 'it has to be revoked there'
  try {
    await backend.revoke({ certificate, reason: TEST_REASON }, AbortSignal.timeout(REVOCATION_MS))
    return 'it was revoked there'
  } catch (error) {
    return `it has to be revoked there: ${messageOf(error)}`
  }
}
