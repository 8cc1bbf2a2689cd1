/**
 * A test of the signer: a signature by every issuer, then a certificate of one hour through profile, build, lint and
 * signature. It is recorded without an account and revoked at once, so that audit chain and database agree.
 */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import { requireTestSignatures } from '../../ca/signer-check.ts'
import type { SignerPlace } from '../../ca/signer-place.ts'
import type { Config } from '../../config/schema.ts'
import { connectSigner } from '../../main/ca/signer-connection.ts'
import { serialNumbers } from '../../main/ca/start-issuance.ts'
import { Issuance, type IssuanceEvents } from '../../services/issuance.ts'
import { makeTestRequest } from '../../services/test-issuance.ts'
import { issuancePolicy } from '../../settings/issuance-settings.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { createCertificateStore } from '../../store/certificate-store.ts'
import type { Database } from '../../store/database.ts'
import { announceInstance } from '../../store/instance-presence.ts'
import { createIssuanceStore } from '../../store/issuance-store.ts'
import { type Administration, withAdministration, withDatabase } from '../operator-database.ts'
import { requireRunning, revokeTestCertificate, SIGNER_TEST_NAME, type TestReport } from './test-report.ts'
import { withSigner } from './with-signer.ts'

/** A running signer answers within milliseconds, or within a second with keys in a slow HSM. */
const TIMEOUT_MS = 5_000
const HOUR_MS = 3_600_000
const SECOND_MS = 1_000

/** @throws Error in a plain sentence that says where the test has ended */
export async function testSigner(config: Config, profile: string, report: TestReport, log: Logger): Promise<void> {
  await withSigner(config, log, async (place, origin) => {
    const ca = connectSigner(place, log)
    try {
      await testIssuers(ca, place, report)
      report.passed(`signer: ${origin}`)
      report.fact('signer', origin)
      await withAdministration(config, (administration) =>
        withDatabase(config, (db) => testCertificate({ config, db, administration, ca }, profile, report)),
      )
    } finally {
      await ca.close()
    }
  })
}

async function testIssuers(ca: CaBackend, { socketPath }: SignerPlace, report: TestReport): Promise<void> {
  const signatures = await requireTestSignatures(ca, socketPath, TIMEOUT_MS)
  const issuers = signatures.map(({ issuer, durationMs }) => {
    const facts = ca.issuers().find(({ id }) => id === issuer)
    const [not_after, certificates] = [facts?.notAfter.toISOString(), facts?.chain.length]
    return { issuer, algorithm: facts?.signatureAlgorithm, duration_ms: durationMs, not_after, certificates }
  })
  report.fact('issuers', issuers)
  for (const { issuer, algorithm, duration_ms, not_after, certificates } of issuers) {
    report.passed(`issuer ${issuer}: ${algorithm} signature made and verified in ${duration_ms.toFixed(1)} ms`)
    report.passed(`issuer ${issuer}: valid until ${not_after}, ${certificates} certificate(s) in its chain`)
  }
}

interface Parts {
  config: Config
  db: Database
  administration: Administration
  ca: CaBackend
}

async function testCertificate(parts: Parts, profileName: string, report: TestReport): Promise<void> {
  const { config, db, administration, ca } = parts
  await requireRunning(db)
  const policy = issuancePolicy(config, [])
  const seen: { interruption?: unknown } = {}
  // A recovery of the service takes up what is left, unless this process is seen to live.
  const presence = await announceInstance(databaseSettings(config, 1), () => undefined)
  try {
    const issuance = new Issuance({
      ca,
      policy,
      instanceId: presence.instanceId,
      serialNumber: serialNumbers(config, db),
      store: createIssuanceStore(db),
      certificates: createCertificateStore(db),
      events: {
        ...SILENT,
        interrupted(error) {
          seen.interruption = error
        },
      },
    })
    const profile = issuance.requireProfile(profileName)
    const { csr, keyType, identifiers } = makeTestRequest(SIGNER_TEST_NAME, profile, policy.csr)
    report.passed(`CSR: a ${keyType} key passes the checks of profile ${profileName}`)
    const now = new Date()
    const notBefore = new Date(Math.floor(now.getTime() / SECOND_MS) * SECOND_MS)
    const validity = { notBefore, notAfter: new Date(notBefore.getTime() + HOUR_MS - SECOND_MS) }
    const subject = { spki: csr.spki, identifiers, commonName: undefined }
    const built = await issuance.build(subject, profile, validity, now)
    if (built.findings.length > 0) throw new Error(`the lint finds faults: ${built.findings.join('; ')}`)
    report.passed(`certificate: built for ${SIGNER_TEST_NAME} and one hour, and linted`)

    const issuing = await issuance.begin(built, undefined, now)
    const { der, error } = issuing ? await issuance.signAndRecord(issuing, built.findings) : {}
    if (error?.nameRefusal !== undefined) {
      report.fact('certificate', null)
      report.passed(`the test ends before the signature, by the signer's policy: ${error.nameRefusal}`)
      return
    }
    if (!der) throw new Error(`no certificate was signed: ${reasonOf(error ?? seen.interruption)}`)
    report.passed(`signed by issuer ${built.issuer.id}, verified and recorded without an account`)
    const serialNumber = await revokeTestCertificate(administration, {
      serialNumber: parseCertificate(der).tbs.serialNumber,
      issuerFingerprint: fingerprintSha256(built.issuer.certificate),
    })
    report.fact('certificate', { serial_number: serialNumber, revoked: true })
    report.passed(`revoked: ${serialNumber}`)
  } finally {
    await presence.close()
  }
}

const SILENT: IssuanceEvents = {
  issued: () => undefined,
  signingFailed: () => undefined,
  interrupted: () => undefined,
  alarm: () => undefined,
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : 'its intent was not recorded')
