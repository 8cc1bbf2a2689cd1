/** PostgreSQL: whether the service can use it as it is set up, and whether it keeps what was committed. */

import { messageOf } from '../../shared/lib/errors.ts'
import { requireUsableSchema } from '../../store/schema/schema-state.ts'
import { requireOwnSessions } from '../../store/session.ts'
import { type DiagnosisRows, settingsFor } from '../facts/database.ts'
import type { Check } from '../sources.ts'
import { CannotTell, failure, ok, orOk, unknownBecause, type Verdict, warning } from '../verdict.ts'

const PAGE = 'docs/operations/database.md'

export const DATABASE: readonly Check[] = [
  {
    id: 'database.reachable',
    title: 'The database answers and takes writes',
    async look(sources) {
      try {
        const { host } = await sources.database()
        return ok(`a session began on ${host}`)
      } catch (error) {
        if (sources.options.loaded.ok)
          return failure(
            messageOf(error),
            `see that PostgreSQL runs and lets the role in: database.host, database.user, pg_hba.conf (${PAGE})`,
          )
        throw error
      }
    },
  },
  {
    id: 'database.schema',
    title: 'The database has the schema of this release',
    async look(sources) {
      await sources.database()
      try {
        const { applied } = await requireUsableSchema(settingsFor(sources.config))
        return ok(`up to ${applied.at(-1)?.name ?? 'none'}`)
      } catch (error) {
        return failure(messageOf(error), 'chancery -c FILE db migrate, or run the other release')
      }
    },
  },
  {
    id: 'database.sessions',
    title: 'Each connection has a session of PostgreSQL of its own',
    async look(sources) {
      await sources.database()
      try {
        await requireOwnSessions(settingsFor(sources.config))
        return ok('no pooler shares sessions')
      } catch (error) {
        const isShared = (error as Error).name === 'SharedSessions'
        if (!isShared) throw new CannotTell(messageOf(error))
        return failure(messageOf(error), 'pool_mode = session in pgbouncer.ini, then reload pgbouncer')
      }
    },
  },
  {
    id: 'database.durable',
    title: 'What PostgreSQL confirms is on the disk',
    look: async (sources) =>
      judgeDurability(new Map((await sources.read('settings')).map(({ name, value }) => [name, value]))),
  },
  {
    id: 'database.replication',
    title: 'Replicas that commits wait for are there and keep up',
    async look(sources) {
      const names =
        (await sources.read('settings')).find(({ name }) => name === 'synchronous_standby_names')?.value ?? ''
      const replicas = await sources.read('replicas')
      return names === '' && replicas.length === 0 ? undefined : judgeReplication(names, replicas)
    },
  },
  {
    id: 'database.slots',
    title: 'No replication slot that nobody reads fills the disk',
    async look(sources) {
      const slots = await sources.read('slots')
      return orOk(
        slots.map(({ name, keptBytes }) =>
          warning(
            `nobody reads the replication slot ${name}, and PostgreSQL keeps ${mebibytes(keptBytes ?? 0)} of WAL for it`,
            `connect its replica, or drop it: SELECT pg_drop_replication_slot('${name}')`,
          ),
        ),
        'none is idle',
      )
    },
  },
  {
    id: 'database.connections',
    title: 'PostgreSQL has room for the connections of all instances',
    async look(sources) {
      const [server, instances] = await Promise.all([sources.read('server'), sources.read('instances')])
      return judgeConnections({ ...server, instances: instances.length, each: sources.config.database.max_connections })
    },
  },
  {
    id: 'database.vacuum',
    title: 'Dead rows are cleaned away',
    async look(sources) {
      const [settings, bloated, { age }] = await Promise.all([
        sources.read('settings'),
        sources.read('bloated'),
        sources.read('server'),
      ])
      const isOff = settings.some(({ name, value }) => name === 'autovacuum' && value !== 'on')
      return judgeVacuum({ isOff, bloated, age })
    },
  },
  {
    id: 'database.transactions',
    title: 'No transaction is open for long',
    async look(sources) {
      const found = await sources.read('transactions')
      return orOk(
        found.map(({ pid, application, seconds }) =>
          warning(
            `process ${pid} (${application || 'unnamed'}) has had a transaction open for ${Math.round(seconds / 60)} minutes: dead rows stay meanwhile, and migrations wait`,
            `end what it does, or SELECT pg_terminate_backend(${pid})`,
          ),
        ),
        'none is older than 15 minutes',
      )
    },
  },
  {
    id: 'database.indexes',
    title: 'Every index is complete',
    async look(sources) {
      const found = await sources.read('indexes')
      return orOk(
        found.map(({ name }) =>
          failure(`the index ${name} is invalid: its build was cut off`, `REINDEX INDEX CONCURRENTLY ${name}`),
        ),
        'none is invalid',
      )
    },
  },
  {
    id: 'database.rights',
    title: 'The role may read all tables',
    async look(sources) {
      const found = await sources.read('closedTables')
      const { user } = sources.config.database
      return found.length === 0
        ? ok(`${user} may`)
        : failure(
            `the role ${user} may not read ${found.map(({ name }) => name).join(', ')}`,
            `let the owner of the tables run chancery db migrate, or grant them to ${user} (docs/operations/administration.md, "Another owner")`,
          )
    },
  },
]

const mebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`

function judgeDurability(settings: ReadonlyMap<string, string>): readonly Verdict[] {
  const off = (name: string) => settings.get(name) === 'off'
  return orOk(
    [
      ...['fsync', 'full_page_writes']
        .filter(off)
        .map((name) =>
          failure(
            `${name} is off in PostgreSQL: a crash of its machine can ruin the database`,
            `${name} = on in postgresql.conf, then SELECT pg_reload_conf()`,
          ),
        ),
      off('synchronous_commit') &&
        warning(
          'synchronous_commit is off in PostgreSQL; the service sets local for its own sessions, and no replica is waited for',
          'synchronous_commit = on in postgresql.conf or for the role, then SELECT pg_reload_conf()',
        ),
    ],
    `fsync and full_page_writes are on, synchronous_commit is ${settings.get('synchronous_commit') ?? 'unknown'}; jit is off in each session of the service`,
  )
}

const MOST_LAG_BYTES = 256 * 2 ** 20

export function judgeReplication(standbyNames: string, replicas: DiagnosisRows['replicas']): readonly Verdict[] {
  const grant = 'GRANT pg_monitor to the role of the service'
  if (replicas.some(({ state }) => state === null))
    return [unknownBecause('the role may not see the state of replicas', grant)]
  const isWaitedFor = replicas.some(({ sync }) => sync === 'sync' || sync === 'quorum')
  return orOk(
    [
      standbyNames !== '' &&
        !isWaitedFor &&
        failure(
          `synchronous_standby_names is ${standbyNames}, and no such replica is connected: commits wait for ever`,
          'start the replica, or take its name out of synchronous_standby_names and SELECT pg_reload_conf() (docs/operations/failover.md)',
        ),
      ...replicas
        .filter(({ lagBytes }) => (lagBytes ?? 0) > MOST_LAG_BYTES)
        .map(({ name, lagBytes }) =>
          warning(
            `the replica ${name} is ${mebibytes(lagBytes ?? 0)} behind`,
            'look at its log, its disk and the network between',
          ),
        ),
    ],
    `${replicas.length} connected`,
  )
}

interface Connections extends Pick<DiagnosisRows['server'], 'connections' | 'allowed' | 'reserved'> {
  instances: number
  each: number
}
/** Commands, migrations and backups need connections, too. */
const OTHERS = 10

export function judgeConnections({ connections, allowed, reserved, instances, each }: Connections): Verdict {
  const wanted = Math.max(1, instances) * each + OTHERS
  const room = allowed - reserved
  if (wanted <= room) return ok(`${connections} of ${room} are open; the instances may open ${wanted}`)
  return warning(
    `PostgreSQL allows ${room} connections (max_connections ${allowed}, ${reserved} of them reserved); ${Math.max(1, instances)} instances with database.max_connections ${each}, and commands, may want ${wanted}`,
    `max_connections = ${wanted + reserved} or more in postgresql.conf and a restart of PostgreSQL, or a smaller database.max_connections`,
  )
}

interface Vacuum extends Pick<DiagnosisRows['server'], 'age'>, Pick<DiagnosisRows, 'bloated'> {
  isOff: boolean
}
/** PostgreSQL itself begins to act at 200 million, and stops at 2,000 million. */
const OLD_TRANSACTION_IDS = 1_000_000_000

export function judgeVacuum({ isOff, bloated, age }: Vacuum): readonly Verdict[] {
  return orOk(
    [
      isOff &&
        failure(
          'autovacuum is off in PostgreSQL: tables grow, and the database stops in the end',
          'autovacuum = on in postgresql.conf, then SELECT pg_reload_conf()',
        ),
      ...bloated.map(({ name, dead }) =>
        warning(
          `the table ${name} has ${dead} dead rows, more than living ones`,
          `see what keeps autovacuum from it (old transactions), then VACUUM ${name}`,
        ),
      ),
      age > OLD_TRANSACTION_IDS &&
        failure(
          `the oldest transaction id is ${age} old; PostgreSQL stops at 2,000,000,000`,
          'VACUUM FREEZE as superuser, and end old transactions and prepared ones',
        ),
    ],
    'autovacuum is on',
  )
}
