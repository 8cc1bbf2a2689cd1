/** The running service: whether it answers, what it says of itself, as whom it runs, and whether the clocks agree. */

import { jsonOf } from '../facts/http.ts'
import { type Check, noAnswer } from '../sources.ts'
import { AS_ROOT, CannotTell, failure, ok, orOk, type Verdict, warning } from '../verdict.ts'

const START = 'start it: systemctl start chancery; journalctl -u chancery says why it has ended'
const SLOW =
  'something listens there and is slow or hangs: see the load of this host and the checks of the database; journalctl -u chancery says what it waits for'

export const SERVICE: readonly Check[] = [
  {
    id: 'service.alive',
    title: 'The service answers on its own port',
    async look(sources) {
      const { bind, port } = sources.config.server
      const asked = await sources.directly('/livez')
      const isSlow = /^no answer within/.test(asked.failure ?? '')
      if (!asked.answer) return noAnswer(asked, `the service does not answer at ${bind}:${port}`, isSlow ? SLOW : START)
      if (asked.answer.status === 200) return ok(`${bind}:${port} answers`)
      return failure(
        `${bind}:${port} answers /livez with ${asked.answer.status}`,
        'see which program has that port: ss -ltnp; server.port names it',
      )
    },
  },
  {
    id: 'service.ready',
    title: 'The service is ready for requests',
    async look(sources) {
      const { status, body } = await sources.serviceAnswer('/readyz')
      if (status === 200) return ok('/readyz says so')
      const { reason = `status ${status}` } = jsonOf<{ reason?: string }>(body)
      return failure(`/readyz says ${reason}`, mendOfReason(reason))
    },
  },
  {
    id: 'service.health',
    title: 'Every part of the service is well',
    async look(sources) {
      const { body } = await sources.serviceAnswer('/healthz')
      return judgeHealth(jsonOf<Health>(body))
    },
  },
  {
    id: 'service.version',
    title: 'The service that runs is of this release',
    async look(sources) {
      const { body } = await sources.serviceAnswer('/livez')
      const { version = 'unknown' } = jsonOf<{ version?: string }>(body)
      const own = sources.options.version
      if (version === own) return ok(`both are ${own}`)
      return warning(
        `the service that runs is ${version}, this program ${own}`,
        'after an upgrade restart the service: systemctl restart chancery',
      )
    },
  },
  {
    id: 'service.user',
    title: 'The service runs as a user of its own',
    look(sources) {
      const found = sources.requireProcess()
      if (found.uid !== 0) return ok(`process ${found.pid} is not root`)
      return failure(
        `process ${found.pid} runs as root`,
        'give it a user of its own, with User=chancery in the unit: docs/operations/deploy.md, "Programs, users, folders"',
      )
    },
  },
  {
    id: 'service.descriptors',
    title: 'The service may open as many files as its limits ask for',
    look(sources) {
      const { server, database, challenges } = sources.config
      const limit = sources.process()?.openFilesLimit
      if (limit === undefined) throw new CannotTell('the limits of the process cannot be read', AS_ROOT)
      return judgeDescriptors(limit, [
        ['server.overload.max_connections', server.overload.max_connections],
        ['challenges.max_concurrent', challenges.max_concurrent],
        ['database.max_connections', database.max_connections],
      ])
    },
  },
  {
    id: 'service.instances',
    title: 'The instances that run on this database are set up to share it',
    async look(sources) {
      const instances = await sources.read('instances')
      const { answer } = await sources.directly('/livez')
      const { nonce, security } = sources.config
      const { enabled, backend } = security.rate_limits
      return judgeInstances({
        instances: instances.length,
        isAlive: answer?.status === 200,
        nonces: nonce.store,
        limits: enabled ? backend : undefined,
      })
    },
  },
]

function mendOfReason(reason: string): string {
  if (/signer|CA backend/i.test(reason)) return 'see the checks of the signer: systemctl status chancery-signer'
  if (/database/i.test(reason)) return 'see the checks of the database: chancery -c FILE db status'
  if (/pool/i.test(reason)) return 'raise database.max_connections, or see which statements hang'
  if (/CRL/.test(reason))
    return 'see why no list is built: the line crl_failed of the log, chancery -c FILE crl rebuild'
  return 'wait until it has started or stopped; the log says why: journalctl -u chancery'
}

interface Health {
  status: string
  checks: Record<string, { status?: string; reason?: string; stale?: boolean } | string>
}

const PARTS: Readonly<Record<string, { is: 'failure' | 'warning'; mend: string }>> = {
  database: { is: 'failure', mend: 'see the checks of the database: chancery -c FILE db status' },
  ca_backend: {
    is: 'failure',
    mend: 'see the checks of the signer, or the log of the other CA (docs/operations/backends.md)',
  },
  crl: { is: 'failure', mend: 'the line crl_failed of the log says why; then chancery -c FILE crl rebuild' },
  signer_records: {
    is: 'failure',
    mend: 'chancery -c FILE reconcile --dry-run says what is missing (docs/operations/database.md)',
  },
  dns_resolver: { is: 'warning', mend: 'see the checks of the name servers (dns.resolvers)' },
  audit_log: {
    is: 'failure',
    mend: 'chancery -c FILE audit verify says where the log was changed (docs/operations/administration.md)',
  },
  smtp: { is: 'warning', mend: 'see the check of the mail server (smtp.host)' },
  events: { is: 'warning', mend: 'see who does not take events: docs/operations/events.md' },
}

export function judgeHealth({ checks = {} }: Partial<Health>): readonly Verdict[] {
  const bad = Object.entries(checks).flatMap(([name, check]) => {
    const part = PARTS[name]
    const status = typeof check === 'string' ? check : check.status
    if (!part || status === undefined || status === 'ok') return []
    const reason = typeof check === 'object' && check.reason ? ` (${check.reason})` : ''
    return [{ result: part.is, says: `/healthz says of ${name}: ${status}${reason}`, mend: part.mend }]
  })
  return orOk(bad, '/healthz says so')
}

/** The service opens files and sockets between threads beside connections; this leaves room for them. */
const OTHER_DESCRIPTORS = 256

export function judgeDescriptors(limit: number, wanted: readonly (readonly [key: string, count: number])[]): Verdict {
  const sum = wanted.reduce((total, [, count]) => total + count, OTHER_DESCRIPTORS)
  if (limit >= sum) return ok(`${limit} may be open, ${sum} may be wanted`)
  return warning(
    `${limit} files may be open, and up to ${sum} are wanted: ${wanted.map(([key, count]) => `${key} ${count}`).join(', ')}`,
    `LimitNOFILE=${2 ** Math.ceil(Math.log2(sum))} in the unit, or lower these keys`,
  )
}

interface Instances {
  instances: number
  isAlive: boolean
  nonces: 'memory' | 'database'
  /** The smallest limit; undefined where there are no limits. */
  limits: 'memory' | 'database' | undefined
}

export function judgeInstances({ instances, isAlive, nonces, limits }: Instances): Verdict {
  if (instances === 0)
    return isAlive
      ? failure(
          'the service answers, and no instance is seen in this database',
          'the service runs on another database: restart it with this configuration, or correct database.host and database.database',
        )
      : failure('no instance runs on this database', START)
  if (instances === 1) return ok('one instance runs')
  const share = [
    ...(nonces === 'memory' ? ['nonce.store: database'] : []),
    ...(limits === 'memory' ? ['security.rate_limits.backend: database'] : []),
  ]
  if (share.length === 0) return ok(`${instances} instances run, and share nonces and counters`)
  return failure(
    `${instances} instances run on this database, and each counts for itself`,
    `set ${share.join(' and ')} on all, and restart them`,
  )
}

const ROUNDS = 5

export const CLOCK: readonly Check[] = [
  {
    id: 'clock.database',
    title: 'This host and the database agree on the time',
    async look(sources) {
      const database = await sources.database()
      let best: { offMs: number; errorMs: number } | undefined
      // Other questions may wait in front of this one, so the quickest answer is the most exact.
      for (let round = 0; round < ROUNDS; round++) {
        const before = Date.now()
        const { now } = await database.read('clock')
        const errorMs = (Date.now() - before) / 2
        if (!best || errorMs < best.errorMs) best = { offMs: now.getTime() - before - errorMs, errorMs }
      }
      return best && judgeClock('the database', best.offMs, best.errorMs)
    },
  },
  {
    id: 'clock.proxy',
    title: 'This host and the public URL agree on the time',
    async look(sources) {
      const before = Date.now()
      const { headers } = await sources.publicAnswer(sources.local('directory'), {
        headers: { 'X-Request-ID': 'doctor-clock' },
      })
      if (headers.date === undefined) throw new CannotTell('the public URL sends no Date header')
      // The header has whole seconds.
      return judgeClock(
        'the public URL (Date header)',
        Date.parse(headers.date) + 500 - (before + Date.now()) / 2,
        500 + (Date.now() - before) / 2,
      )
    },
  },
]

const WARNING_MS = 2_000
/** The signer takes a list whose thisUpdate is at most 5 minutes ahead of its clock. */
const FAILURE_MS = 60_000

/** @param offMs how far the other clock is ahead of this one; @param errorMs how exact that is */
export function judgeClock(whose: string, offMs: number, errorMs: number): Verdict {
  const seconds = `${(Math.abs(offMs) / 1000).toFixed(1)} s`
  const least = Math.abs(offMs) - errorMs
  if (least < WARNING_MS) return ok(`${whose} is less than ${Math.ceil((Math.abs(offMs) + errorMs) / 1000)} s away`)
  const says = `the clock of ${whose} is ${seconds} ${offMs > 0 ? 'ahead of' : 'behind'} that of this host`
  const mend = 'see on both machines which one is wrong: timedatectl; install systemd-timesyncd or chrony'
  return least < FAILURE_MS ? warning(says, mend) : failure(says, mend)
}
