/** `chancery reconcile`: compares the database with what the signer has recorded, and brings back what is missing. */

import type { CaBackend } from '../../ca/backend.ts'
import type { RecordState, SignerRecords } from '../../ca/signer-records.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { connectSigner } from '../../main/ca/signer-connection.ts'
import { createLogger } from '../../ops/logging.ts'
import { Restoration, type RestorationEvents } from '../../services/reconcile/restoration.ts'
import { FIRST, type Missing, SignerComparison } from '../../services/reconcile/signer-comparison.ts'
import { fingerprintSha256 } from '../../shared/pki/certificate.ts'
import { createCertificateStore } from '../../store/certificate-store.ts'
import { slowNow } from '../../store/clock-store.ts'
import { createCrlStore } from '../../store/crl-store.ts'
import type { Database } from '../../store/database.ts'
import { createIssuanceStore } from '../../store/issuance-store.ts'
import { restorationStore } from '../../store/restoration-store.ts'
import { createSignerMarkStore } from '../../store/signer-mark-store.ts'
import { readConfigFile } from '../config-file.ts'
import { type Administration, withAdministration, withDatabase } from '../operator-database.ts'
import { tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'
import { acceptLost, givenUpFacts, givenUpLine, showLost } from './lost-decisions.ts'
import { reconcileDecisions, reconcileFile, toldCounts } from './reconcile-decisions.ts'
import { withSigner } from './with-signer.ts'

export interface ReconcileOptions extends Printing {
  'dry-run': boolean
  /** Says what is lost, and asks no signer. */
  lost: boolean
  /** From the first record on; else from the mark of the database. */
  all: boolean
  /** Certificates and acts that stay lost are no trouble any more. */
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
  lacking: Missing
  /** What became of the decisions that lacked: count by outcome; with `--dry-run` by what they would do. */
  decisions: Record<string, number>
  certificates: number
  without_order: number
  revocations: number
  given_up: number
  /** What was given up, now or before, and nobody has accepted. */
  lost: readonly { serial_number: string; reason: string }[]
}

async function compare({ config, db, administration, ca, records, state }: Parts, options: ReconcileOptions) {
  const report: Report = { lacking: { certificates: 0, revocations: 0 }, ...NOTHING }
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
    report.lacking.certificates += found.certificates
    report.lacking.revocations += found.revocations
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
  const { lacking, lost: _, decisions: dealtWith, ...back } = report
  const ofCertificates = `lacking: ${lacking.certificates} certificates, ${lacking.revocations} revocations`
  const wanted = [ofCertificates, toldCounts(dealtWith)].filter((text) => text !== '').join('; ')
  const done = `back: ${back.certificates} certificates (${back.without_order} without an order), ${back.revocations} revocations; ${back.given_up} do not come back`
  tell(
    options.json,
    options['dry-run'] ? { lacking, decisions: dealtWith, lost: report.lost } : report,
    wanted,
    ...(options['dry-run'] ? [] : [done]),
    ...(options.all ? [] : ['not compared: what the last comparison had; --all begins with the first record']),
  )
  const isLacking = lacking.certificates + lacking.revocations + Object.keys(dealtWith).length > 0
  const isLost = lost.length > 0 && !options['accept-lost']
  return isLost || (options['dry-run'] && isLacking) ? 1 : 0
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

async function leaveEntry({ audit, actor }: Administration, { lacking: _, lost: __, ...back }: Report): Promise<void> {
  if (back.certificates + back.revocations + back.given_up > 0) await audit.record(actor, 'database.reconcile', back)
}
