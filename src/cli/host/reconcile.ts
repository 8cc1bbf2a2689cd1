/**
 * `chancery reconcile`: compares the database with the records of the signer, and brings back what is missing. With
 * `--lost` it lists what a fail-over has lost and nobody has accepted, from the database alone.
 */

import { acceptLostDecisions, listLostDecisions, lostDecisionBody } from '../../admin/audit/lost-decision-endpoints.ts'
import type { CaBackend } from '../../ca/backend.ts'
import type { RecordState, SignerRecords } from '../../ca/signer-records.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { isOpen, reportByOutcome } from '../../domain/lost-decisions.ts'
import { connectSigner } from '../../main/ca/signer-connection.ts'
import { createLogger } from '../../ops/logging.ts'
import { Restoration, type RestorationEvents } from '../../services/reconcile/restoration.ts'
import { FIRST, type Missing, SignerComparison } from '../../services/reconcile/signer-comparison.ts'
import { printable } from '../../shared/lib/terminal.ts'
import { fingerprintSha256 } from '../../shared/pki/certificate.ts'
import { restorationStore } from '../../store/certificate-import.ts'
import { createCertificateStore } from '../../store/certificate-store.ts'
import { slowNow } from '../../store/clock-store.ts'
import { createCrlStore } from '../../store/crl-store.ts'
import type { Database } from '../../store/database.ts'
import { createIssuanceStore } from '../../store/issuance-store.ts'
import { createSignerMarkStore, type GivenUp, type SignerMarkStore } from '../../store/signer-mark-store.ts'
import { readConfigFile } from '../config-file.ts'
import { type Administration, withAdministration, withDatabase } from '../operator-database.ts'
import { tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'
import { reconcileDecisions, reconcileFile, toldCounts } from './reconcile-decisions.ts'
import { withSigner } from './with-signer.ts'

interface ReconcileOptions extends Printing {
  'dry-run': boolean
  /** Says what is lost, and asks no signer. */
  lost: boolean
  /** Begins at the first record; else at the mark of the database. */
  all: boolean
  /** Accepts that certificates and acts stay lost: they are no fault any more. */
  'accept-lost': boolean
}

const ANSWER_MS = 15_000

/** @returns 0 when the database has everything now; 1 when something is missing or did not come back */
export async function reconcile(options: ReconcileOptions): Promise<number> {
  if (options.lost) return showLost(options)
  const config = await readConfigFile(options.config)
  if (!hasSigner(config)) return reconcileFile(config, options)
  const { log } = createLogger({ ...config.logging, level: 'CRITICAL' }, 'main')
  return withSigner(config, log, async (place) => {
    const ca = connectSigner(place, log)
    try {
      await ca.health({ timeoutMs: ANSWER_MS })
      const state = await ca.records?.state()
      if (!ca.records || !state) {
        await reconcileFile(config, options)
        throw new CommandError('the signer is of an earlier release, and keeps no records')
      }
      const { records } = ca
      return await withAdministration(
        config,
        (administration) =>
          withDatabase(config, (db) => compare({ config, db, administration, ca, records, state }, options)),
        'current',
        'any',
      )
    } finally {
      await ca.close()
    }
  })
}

interface Parts {
  config: Config
  db: Database
  administration: Administration
  ca: CaBackend
  records: SignerRecords
  state: RecordState
}

interface Report {
  missing: Missing
  /** Outcome → count of the decisions that were missing; with `--dry-run` of what they would do. */
  decisions: Record<string, number>
  certificates: number
  without_order: number
  revocations: number
  given_up: number
  /** Certificates that were given up, now or before, and that nobody has accepted. */
  lost: readonly { serial_number: string; reason: string }[]
}

async function compare({ config, db, administration, ca, records, state }: Parts, options: ReconcileOptions) {
  const report: Report = { missing: { certificates: 0, revocations: 0 }, ...NOTHING }
  const say = (line: string) => options.json || console.log(line)
  const marks = createSignerMarkStore(db)
  const certificates = createCertificateStore(db)
  const restoration = new Restoration({
    records,
    ca,
    saveIssuer: ({ certificate, chain }) =>
      certificates.saveIssuer(Buffer.from(fingerprintSha256(certificate), 'hex'), certificate, chain),
    store: restorationStore(db, createIssuanceStore(db)),
    events: restored(report, say),
  })
  const comparison = new SignerComparison({
    records,
    marks,
    crls: createCrlStore(db),
    restoration,
    now: () => slowNow(db),
    intentSeconds: config.ca.deferred_signing_timeout,
    expiredAfterDays:
      config.retention.certificates_days_after_expiry === null ? undefined : config.ca.max_validity_days,
    onMissing: async (what, serialNumbers) => {
      if (options['dry-run']) for (const serialNumber of serialNumbers) say(`missing ${ONE[what]}  ${serialNumber}`)
    },
    onStrangeTimes: (serialNumbers) => {
      for (const serialNumber of serialNumbers) say(`the time of a revocation is ahead of the clock  ${serialNumber}`)
    },
    isStopping: () => false,
  })
  const run = async (...args: Parameters<SignerComparison['run']>) => {
    const found = await comparison.run(...args)
    report.missing.certificates += found.certificates
    report.missing.revocations += found.revocations
  }
  report.decisions = await reconcileDecisions({ config, administration, records }, options['dry-run'], say)
  const mark = await marks.mark(state.chain)
  if (options['dry-run']) await run(state, options.all ? FIRST : mark, 'count')
  else {
    if (options.all) await run(state, FIRST, 'restore all')
    await run(state, mark, 'restore')
    await marks.noteNothingMissing()
    await leaveEntry(administration, report)
  }
  const lost = await marks.givenUp()
  for (const one of lost) say(givenUpLine(one))
  if (options['accept-lost']) await acceptLost(administration, marks)
  report.lost = lost.map(givenUpFacts)
  const { missing, lost: _, decisions: dealtWith, ...back } = report
  const ofCertificates = `missing: ${missing.certificates} certificates, ${missing.revocations} revocations`
  const wanted = [ofCertificates, toldCounts(dealtWith)].filter((text) => text !== '').join('; ')
  const done = `back: ${back.certificates} certificates (${back.without_order} without an order), ${back.revocations} revocations; ${back.given_up} do not come back`
  tell(
    options.json,
    options['dry-run'] ? { missing, decisions: dealtWith, lost: report.lost } : report,
    wanted,
    ...(options['dry-run'] ? [] : [done]),
    ...(options.all ? [] : ['not compared: what the last comparison had; --all begins with the first record']),
  )
  const isMissing = missing.certificates + missing.revocations + Object.keys(dealtWith).length > 0
  const isLost = lost.length > 0 && !options['accept-lost']
  return isLost || (options['dry-run'] && isMissing) ? 1 : 0
}

const NOTHING = { certificates: 0, without_order: 0, revocations: 0, given_up: 0, lost: [], decisions: {} }
const ONE = { certificates: 'certificate', revocations: 'revocation' } as const

function restored(report: Report, say: (line: string) => void): RestorationEvents {
  return {
    certificate({ serialNumber, orderId, names }) {
      report.certificates += 1
      if (orderId === undefined) report.without_order += 1
      say(`certificate  ${serialNumber}  ${names.join(',')}${orderId === undefined ? '' : `  order ${orderId}`}`)
    },
    revocation({ serialNumber, reason }) {
      report.revocations += 1
      say(`revocation   ${serialNumber}  reason ${reason}`)
    },
    givenUp() {
      report.given_up += 1
    },
  }
}

async function leaveEntry({ audit, actor }: Administration, { missing: _, lost: __, ...back }: Report): Promise<void> {
  if (back.certificates + back.revocations + back.given_up > 0) await audit.record(actor, 'database.reconcile', back)
}

/** Some 2 MB of lost acts are shown, the last found first. */
const MOST_SHOWN = 10_000

const givenUpLine = ({ sequence, serialNumber, reason }: GivenUp): string =>
  `lost         ${serialNumber}  line ${sequence} of the audit chain: ${reason}`
const givenUpFacts = ({ serialNumber, reason }: GivenUp) => ({ serial_number: serialNumber, reason })

/** @returns 1 while something is lost, wholly or in part, and nobody has accepted it */
async function showLost(options: Printing & { 'accept-lost': boolean }): Promise<number> {
  const config = await readConfigFile(options.config)
  return withAdministration(config, (administration) =>
    withDatabase(config, async (db) => {
      const marks = createSignerMarkStore(db)
      const isLost = await tellLost(administration, await marks.givenUp(), options.json)
      if (options['accept-lost']) await acceptLost(administration, marks)
      return isLost && !options['accept-lost'] ? 1 : 0
    }),
  )
}

async function tellLost({ db }: Administration, certificates: readonly GivenUp[], json: boolean): Promise<boolean> {
  const rows = await listLostDecisions(db, { accepted: false }, { limit: MOST_SHOWN + 1, offset: 0 })
  const shown = rows.slice(0, MOST_SHOWN)
  const more = rows.length > shown.length
  const acts = shown.map(({ decided_at: at, decided_by: by, ...row }) => ({ at, by, ...row }))
  tell(
    json,
    { decisions: shown.map(lostDecisionBody), more, lost: certificates.map(givenUpFacts) },
    ...reportByOutcome(acts).map(printable),
    ...(more ? [`Only the ${MOST_SHOWN} that were found last are shown.`] : []),
    ...certificates.map(givenUpLine),
    shown.length + certificates.length > 0
      ? '\nWhen nothing more is to be done: chancery reconcile --lost --accept-lost'
      : 'Nothing that a fail-over has lost is left to look at.',
  )
  return more || acts.some(isOpen) || certificates.length > 0
}

/** Accepts that certificates and acts stay lost. */
async function acceptLost({ audit, actor }: Administration, marks: SignerMarkStore): Promise<void> {
  const certificates = await marks.givenUp()
  if (certificates.length > 0) {
    const accepted = certificates.map(({ serialNumber }) => serialNumber)
    await audit.record(actor, 'database.reconcile', { accepted })
    await marks.acceptGivenUp()
  }
  await acceptLostDecisions(audit, actor)
}
