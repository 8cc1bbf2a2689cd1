/**
 * The probes behind the health endpoints and the readiness gauges: database, CA backend, CRL.
 *
 * A health check is cached for three seconds. It asks every issuer for a signature at the start, after an error and
 * every few minutes. In between it asks the signer for its state, and the signer asks each token whether its session
 * is alive. A scrape signs nothing. No probe waits for a signer that is known to be unreachable.
 */

import type { CaBackend, CaHealth } from '../ca/backend.ts'
import { isBehind, type WorkersStatus } from '../domain/alarms.ts'
import {
  type CaTrouble,
  type CheckStatus,
  type DatabaseTrouble,
  type HealthReport,
  unreadiness,
} from '../domain/health.ts'
import type { SharedFlags } from '../services/shared-state.ts'
import { pressureTier } from '../services/shared-state.ts'
import { within } from '../shared/lib/time-limit.ts'
import { type Database, requireRoom, requireWrites } from '../store/database.ts'
import { type DiskTrouble, diskTroubleOf } from '../store/sqlstate.ts'

/** The backends that certificates come from. */
export interface BackendHealth {
  /** Name of the backend behind the signer; undefined when no certificate is signed here. */
  signer: string | undefined
  /** Backends that issue from a CSR, and whether each is asked at the moment. */
  others: readonly { name: string; isUp: boolean }[]
}

export interface ProbeParts {
  /** One that is up is enough where there are others beside the signer. */
  backends(): BackendHealth
  db: Pick<Database, 'query'>
  ca: Pick<CaBackend, 'testSign' | 'unreachable' | 'health'>
  /** How long a signature waits for a signer that restarts (`ca.signer.timeout_seconds`). */
  signTimeoutMs: number
  flags: Pick<SharedFlags, 'pool' | 'isOn' | 'disk' | 'noteDisk'>
  workers(): HealthReport['checks']['workers']
  /** Workers of all instances, from the database. */
  background(): Promise<WorkersStatus>
  /** Undefined when no CRL is published. */
  crl(): HealthReport['checks']['crl']
  /** Undefined when no certificate is signed here. */
  signerRecords(): CheckStatus | undefined
  /** How many certificates were given up that the signer has recorded, by the database. */
  givenUp(): Promise<number>
  /** Undefined when no name server is configured. */
  dnsResolver(): CheckStatus | undefined
  /** Undefined when the Admin API is off. */
  auditLog(): CheckStatus | undefined
  /** Undefined when no mail is sent. */
  smtp: (() => Promise<CheckStatus | undefined>) | undefined
  isStopping(): boolean
}

interface Readiness {
  isCaUp: boolean
  /** By a statement of the supervisor's own connections: also where the fronts' are all in use. */
  isDatabaseUp: boolean
  disk: DiskTrouble | undefined
  /** Certificates that the signer has recorded and that do not come back; 0 where the database does not answer. */
  givenUp: number
  isReady: boolean
}

export interface Probe {
  /** Used by the health endpoints. */
  health(): Promise<HealthReport>
  /** Used by a scrape: whether the signer could sign, and whether the instance is ready. */
  readiness(): Promise<Readiness>
}

type CaCheck = HealthReport['checks']['ca_backend']

/** Caches a health check. */
const PROBE_LIFE_MS = 3_000
/** How long a statement counts that failed because of the disk; then the probe looks itself. */
const DISK_LIFE_SECONDS = 10
const DISK_WORDS: Record<DiskTrouble, DatabaseTrouble> = {
  full: 'database disk full',
  failing: 'database disk failing',
}
/** Each signature is a line in the signer's audit log, and work of its token. */
const SIGNATURE_LIFE_MS = 300_000
/** How long a failed signature counts for scrapes. */
const VERDICT_LIFE_MS = 30_000
const PROBE_TIMEOUT_MS = 2_000
/** The signer answers this without a signature. */
const CA_HEALTH_TIMEOUT_MS = 1_000

/** @param nowMs a clock that does not jump */
export function createProbe(parts: ProbeParts, nowMs: () => number = () => performance.now()): Probe {
  const { ca, flags } = parts
  const caProbe = createCaProbe(parts, nowMs)
  const checkDatabase = databaseCheck(parts)
  let last: { at: number; circumstances: string; report: Promise<HealthReport> } | undefined

  /** A cached report is void once these change. */
  const circumstances = () => [flags.isOn('stopSigning'), ca.unreachable() !== undefined, flags.disk()?.trouble].join()

  async function report(
    checkCa: () => Promise<CaCheck>,
  ): Promise<HealthReport & Pick<Readiness, 'isDatabaseUp' | 'disk'>> {
    const numbers = flags.pool()
    const { max, size, available, waiting } = numbers
    const pool = { max, size, available, waiting }
    const isExhausted = pressureTier(numbers) === 'exhausted'
    const [answered, ca_backend, givenUp] = await Promise.all([
      within(checkDatabase(), PROBE_TIMEOUT_MS, 'error'),
      checkCa(),
      // The check beside it says that the database does not answer.
      within(
        parts.givenUp().catch(() => 0),
        PROBE_TIMEOUT_MS,
        0,
      ),
    ])
    const crl = parts.crl()
    const signerRecords = parts.signerRecords()
    const dnsResolver = parts.dnsResolver()
    const auditLog = parts.auditLog()
    const disk = flags.disk()?.trouble
    const database = disk ? { status: 'error' as const, reason: DISK_WORDS[disk] } : { status: answered }
    return {
      isDatabaseUp: answered === 'ok',
      disk,
      checks: {
        database: isExhausted ? 'pool_exhausted' : { ...database, pool },
        ca_backend,
        ...(crl && { crl }),
        ...(signerRecords && { signer_records: recordsCheck(signerRecords, givenUp) }),
        ...(dnsResolver && { dns_resolver: { status: dnsResolver } }),
        ...(auditLog && { audit_log: { status: auditLog } }),
        workers: parts.workers(),
      },
      pool,
      maintenance_mode: flags.isOn('maintenance'),
      shutting_down: parts.isStopping(),
    }
  }

  return {
    async health() {
      const [now, current] = [nowMs(), circumstances()]
      if (!last || last.circumstances !== current || now - last.at > PROBE_LIFE_MS)
        last = {
          at: now,
          circumstances: current,
          report: withBackground(report(caProbe.withSignature), parts),
        }
      return {
        ...(await last.report),
        maintenance_mode: flags.isOn('maintenance'),
        shutting_down: parts.isStopping(),
      }
    },
    async readiness() {
      const isUp = await caProbe.isUp()
      const found = await report(async () => ({
        status: flags.isOn('stopSigning') ? 'stopped' : isUp ? 'ok' : 'error',
        ...(!isUp && { reason: caProbe.trouble() }),
      }))
      const { isDatabaseUp, disk, checks } = found
      const givenUp = checks.signer_records?.given_up ?? 0
      return { isCaUp: isUp, isDatabaseUp, disk, givenUp, isReady: unreadiness(found) === undefined }
    },
  }
}

const recordsCheck = (status: CheckStatus, givenUp: number) =>
  givenUp > 0 ? { status: 'error' as const, given_up: givenUp } : { status }

/** One question at a time. When commits wait for a lost replica, more questions would take every connection. */
function databaseCheck({ db, flags }: Pick<ProbeParts, 'db' | 'flags'>): () => Promise<CheckStatus> {
  let asked: Promise<CheckStatus> | undefined
  const look = async () => {
    const seen = flags.disk()
    // A look may find room where a client's statement did not, so what it said counts for a while.
    if (seen && seen.ageSeconds >= DISK_LIFE_SECONDS)
      await requireRoom(db).then(
        () => flags.noteDisk(undefined),
        // A role that may make no temporary table cannot tell; the next statement does.
        (error) => flags.noteDisk(diskTroubleOf(error)),
      )
    await requireWrites(db).catch((error) => {
      flags.noteDisk(diskTroubleOf(error) ?? flags.disk()?.trouble)
      throw error
    })
  }
  return () =>
    (asked ??= checkOf(look()).finally(() => {
      asked = undefined
    }))
}

/** The backends' part of a health check. */
function createCaProbe(
  { ca, signTimeoutMs, flags, backends }: Pick<ProbeParts, 'ca' | 'signTimeoutMs' | 'flags' | 'backends'>,
  nowMs: () => number,
) {
  let signed: { at: number; status: CheckStatus } | undefined
  /** When the signer last answered that it can sign; a connection that is lost after a silence is no restart. */
  let readyAt = Number.NEGATIVE_INFINITY

  const isAway = () => ca.unreachable() !== undefined

  function trouble(): CaTrouble {
    if (!isAway()) return 'CA backend unavailable'
    return nowMs() - readyAt < signTimeoutMs ? 'signer connection lost' : 'signer not reachable'
  }

  async function signing(): Promise<CaCheck> {
    if (flags.isOn('stopSigning')) return { status: 'stopped', ...shown(await caHealth()) }
    if (signed?.status === 'ok' && !isAway() && nowMs() - signed.at < SIGNATURE_LIFE_MS) {
      const health = await caHealth()
      if (isReady(health)) return { status: 'ok', ...shown(health) }
    }
    const status = isAway() ? 'error' : await checkOf(ca.testSign({ timeoutMs: PROBE_TIMEOUT_MS }))
    // A signer that is back must sign again to count as up.
    signed = isAway() ? undefined : { at: nowMs(), status }
    // Asked after the signature, because only a signature detects a lost token.
    const tokens = shown(await caHealth())
    return status === 'ok' ? { status, ...tokens } : { status, ...tokens, reason: trouble() }
  }

  async function isUp(): Promise<boolean> {
    const { signer, others } = backends()
    if (others.some((other) => other.isUp)) return true
    return signer !== undefined && isSignerUp()
  }

  async function isSignerUp(): Promise<boolean> {
    if (signed?.status === 'error' && nowMs() - signed.at < VERDICT_LIFE_MS) return false
    return isReady(await caHealth())
  }

  /** @returns undefined when the signer does not answer */
  async function caHealth(): Promise<CaHealth | undefined> {
    if (isAway()) return undefined
    // The caller asks only whether the signer answers.
    const health = await ca.health({ timeoutMs: CA_HEALTH_TIMEOUT_MS }).catch(() => undefined)
    if (isReady(health)) readyAt = nowMs()
    else if (!isAway()) readyAt = Number.NEGATIVE_INFINITY
    return health
  }

  return { withSignature: async () => withOthers(await signing(), backends()), isUp, trouble }
}

const isReady = (health: CaHealth | undefined): health is CaHealth =>
  health?.signing === true && health.tokens.every(({ status }) => status === 'ready')

/** One backend that is up is enough. */
function withOthers(signing: CaCheck, { signer, others }: BackendHealth): CaCheck {
  if (others.length === 0) return signing
  const statuses = [
    ...(signer === undefined ? [] : [[signer, { status: signing.status }] as const]),
    ...others.map(({ name, isUp }) => [name, { status: isUp ? ('ok' as const) : ('error' as const) }] as const),
  ]
  const { reason, ...shownOfSigner } = signing
  const isUp = statuses.some(([, { status }]) => status === 'ok')
  const status = signing.status === 'stopped' ? 'stopped' : isUp ? 'ok' : 'error'
  const why = status === 'error' ? { reason: reason ?? 'CA backend unavailable' } : {}
  return { ...shownOfSigner, status, ...why, backends: Object.fromEntries(statuses) }
}

/** Background work is shown, and decides nothing. */
async function withBackground(found: Promise<HealthReport>, parts: Pick<ProbeParts, 'background' | 'smtp'>) {
  // Absent from the report when the database does not answer, which its own check says.
  const asked = parts.background().catch(() => undefined)
  const mail = parts.smtp?.().catch((): CheckStatus => 'error')
  const [report, background, smtp] = await Promise.all([
    found,
    within(asked, PROBE_TIMEOUT_MS, undefined),
    mail && within(mail, PROBE_TIMEOUT_MS, 'error'),
  ])
  const checks = {
    ...report.checks,
    ...(background && shownBackground(report, background)),
    ...(smtp && { smtp: { status: smtp } }),
  }
  return { ...report, checks }
}

function shownBackground({ checks }: HealthReport, { tasks, consumers }: WorkersStatus) {
  return {
    workers: {
      ...checks.workers,
      tasks: Object.fromEntries(
        tasks.map(({ name, leader, lastRunAt, nextRunAt, errors }) => [
          name,
          { leader, last_run: lastRunAt.toISOString(), next_run: nextRunAt.toISOString(), errors },
        ]),
      ),
    },
    ...(consumers.length > 0 && {
      events: {
        status: consumers.some(isBehind) ? ('behind' as const) : ('ok' as const),
        consumers: Object.fromEntries(
          consumers.map(({ name, waiting, oldestSeconds }) => [name, { waiting, oldest_seconds: oldestSeconds }]),
        ),
      },
    }),
  }
}

function shown(health: CaHealth | undefined): Pick<CaCheck, 'tokens'> {
  if (!health || health.tokens.length === 0) return {}
  return { tokens: health.tokens.map(({ issuer, status, since }) => ({ issuer, status, since })) }
}

async function checkOf(check: Promise<unknown>): Promise<CheckStatus> {
  return check.then(
    (): CheckStatus => 'ok',
    (): CheckStatus => 'error',
  )
}
