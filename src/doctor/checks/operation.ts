/** The state of the service in the database: switches, background tasks, what waits, and the newest entries of the audit log. */

import { type Alarm, alarmsOf } from '../../domain/alarms.ts'
import { AuditCheck, cutSeal } from '../../domain/audit-chain.ts'
import { auditKeyOf } from '../../settings/admin-settings.ts'
import { readWorkers } from '../../store/background-run-store.ts'
import { createServerSettings } from '../../store/switch-store.ts'
import { AUDIT_ENTRIES, type DiagnosisRows } from '../facts/database.ts'
import type { Check } from '../sources.ts'
import { failure, ok, orOk, type Verdict, warning } from '../verdict.ts'

export const OPERATION: readonly Check[] = [
  {
    id: 'service.switches',
    title: 'No switch stops orders or signatures',
    async look(sources) {
      const { maintenance, stopSigning } = await createServerSettings(await sources.database()).switches()
      const by = (one: typeof maintenance) => `by ${one.by ?? 'somebody'}${one.reason ? ` (${one.reason})` : ''}`
      return orOk(
        [
          stopSigning.on &&
            failure(
              `signing is stopped, ${by(stopSigning)}: no certificate and no CRL is signed`,
              'when the reason has gone: chancery -c FILE signing resume',
            ),
          maintenance.on &&
            warning(
              `maintenance mode is on, ${by(maintenance)}: new orders are refused`,
              'when it has ended: chancery -c FILE maintenance off',
            ),
        ],
        'orders are taken, and signatures made',
      )
    },
  },
  {
    id: 'service.tasks',
    title: 'Background tasks run, and their events are delivered',
    async look(sources) {
      const workers = await readWorkers(await sources.database())
      const [{ deadLetters, failedMails }, raised, [failingMail = null], { behindSince, lostDecisions }] =
        await Promise.all([
          sources.read('deliveries'),
          sources.read('alarms'),
          sources.read('mail'),
          sources.read('marks'),
        ])
      const alarms = alarmsOf({
        ...SEEN_ELSEWHERE,
        now: new Date(),
        workers,
        deadLetters,
        failedNotifications: failedMails,
        raised,
        failingMail,
        databaseBehindSince: behindSince ?? undefined,
        lostDecisions,
      })
      return orOk(alarms.map(judgeAlarm), `${workers.tasks.length} tasks have run, nothing is left undelivered`)
    },
  },
  {
    id: 'service.unfinished',
    title: 'No issuance is stuck',
    async look(sources) {
      const [intents, others] = await Promise.all([sources.read('intents'), sources.read('csrIssuances')])
      const limit = sources.config.ca.deferred_signing_timeout
      return judgeUnfinished(intents, others, limit)
    },
  },
]

const MENDS: Readonly<Record<string, string>> = {
  task: 'chancery -c FILE workers status and the log say more (docs/operations/monitoring.md)',
  consumer: 'see why its receiver does not take them: docs/operations/events.md',
  dead_letters: 'chancery -c FILE events dead lists them, events retry delivers them (docs/operations/events.md)',
  notifications: 'chancery -c FILE notifications list shows them; smtp.* names the mail server',
  mail: 'chancery -c FILE notifications list shows the mails; smtp.* names the mail server',
  alarm_event: 'look for lines of level fatal in the log, each with its reason: journalctl -u chancery',
  lost_decisions:
    'chancery -c FILE reconcile --lost says which; --accept-lost, too, when nothing more is to be done (docs/operations/database.md)',
  database_behind:
    'chancery -c FILE reconcile --dry-run says what is missing (docs/operations/database.md, "After a fail-over")',
}

/** Other checks look at these parts, and an emergency needs nothing mended: no alarm comes from them here. */
const SEEN_ELSEWHERE = {
  instance: {
    database: 'ok',
    pool: { max: 1, size: 1, available: 1, waiting: 0 },
    caBackend: { status: 'ok', reason: undefined, tokens: [] },
    dnsResolver: undefined,
    issuers: [],
  },
  crl: { isPublished: false, isStale: false, obstacle: undefined },
  isSigningStopped: false,
  isInMaintenance: false,
  oldestValidationSeconds: 0,
  emergencies: 0,
} as const

function judgeAlarm({ severity, code, message }: Alarm): Verdict {
  const mend = MENDS[code] ?? 'docs/operations/monitoring.md says more'
  return severity === 'error' ? failure(message, mend) : warning(message, mend)
}

export function judgeUnfinished(
  intents: DiagnosisRows['intents'],
  others: DiagnosisRows['csrIssuances'],
  limitSeconds: number,
) {
  const isOld = intents.count > 0 && intents.oldestSeconds > limitSeconds
  return orOk(
    [
      isOld &&
        failure(
          `${intents.count} issuances have begun and not ended, the oldest ${intents.oldestSeconds} s ago`,
          'a running instance finishes them as soon as its signer answers; the log line issuance_interrupted says why one has stopped',
        ),
      others.failures > 2 &&
        warning(
          `of ${others.count} issuances by another CA, one has failed ${others.failures} times in a row`,
          'chancery -c FILE ca test-sign asks the CA; docs/operations/backends.md says what to watch',
        ),
    ],
    intents.count === 0 ? 'none waits' : `${intents.count} are under way`,
  )
}

export const AUDIT: readonly Check[] = [
  {
    id: 'database.audit',
    title: 'The newest entries of the audit log are whole',
    async look(sources) {
      const key = auditKeyOf(sources.config)
      return key && judgeAuditLog(await sources.read('auditEntries'), key)
    },
  },
]

/** @param rows the newest first */
function judgeAuditLog(rows: DiagnosisRows['auditEntries'], key: Buffer): Verdict {
  const [{ head, headMac, cut, cutMac, cutSeal: seal } = rows[0]!] = rows
  const entries = rows.flatMap((row) => (row.id === null ? [] : [{ ...row, id: row.id }])).toReversed()
  const before = entries.length > AUDIT_ENTRIES ? entries.shift() : undefined
  const check = new AuditCheck({
    key,
    head: { sequence: head, mac: headMac },
    cut: before
      ? { ...before, seal: cutSeal(key, before.sequence, before.mac) }
      : { sequence: cut, mac: cutMac, seal: seal ?? undefined },
    noted: [],
  })
  for (const entry of entries) check.add(entry)
  const { faults } = check.verdict()
  if (faults.length === 0)
    return ok(
      `${before ? 'the newest ' : 'all '}${entries.length} entries are${before ? '; chancery -c FILE audit verify looks at all' : ''}`,
    )
  return failure(
    `it is not: ${faults.slice(0, 3).join('; ')}`,
    'chancery -c FILE audit verify names all; a key that was lost is in the backup: admin_api.audit_key_file, else token_secret',
  )
}
