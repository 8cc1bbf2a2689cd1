/** The steps that bring role and database into a PostgreSQL of this host. */

import type { Answers } from './answers.ts'
import type { Facts } from './facts.ts'
import type { Command, Step } from './step.ts'

const CLUSTER = 'chancery'
/** A cluster that was made without a locale gives SQL_ASCII, which the service refuses. */
const PLAIN_TEXT = ['--template=template0', '--encoding=UTF8', '--locale=C.UTF-8']

export function databaseSteps(answers: Answers, { postgres }: Facts): Step[] {
  const { database, database_port } = answers
  if (database === 'remote') return []
  const port = ['--port', String(database_port)]
  const asPostgres = (...words: string[]): Command => ({ words, as: 'postgres' })
  const asks = (sql: string) => asPostgres('psql', ...port, '--no-psqlrc', '-tAc', sql, 'postgres')
  const cluster: Step[] = [
    {
      title: `A cluster of PostgreSQL ${postgres} of its own, at port ${database_port} (for trials)`,
      work: {
        kind: 'run',
        command: { words: ['pg_createcluster', String(postgres), CLUSTER, ...port], as: 'root' },
        unless: `/etc/postgresql/${postgres}/${CLUSTER}/postgresql.conf`,
      },
    },
    {
      title: 'Start that cluster',
      work: {
        kind: 'run',
        command: { words: ['pg_ctlcluster', String(postgres), CLUSTER, 'start'], as: 'root' },
        unless: asPostgres('pg_isready', ...port),
      },
    },
  ]
  return [
    ...(database === 'trial' ? cluster : []),
    {
      title: 'Role chancery in PostgreSQL',
      work: {
        kind: 'run',
        command: asPostgres('createuser', ...port, 'chancery'),
        unless: asks("SELECT 1 FROM pg_roles WHERE rolname = 'chancery'"),
      },
    },
    {
      title: 'Database chancery, which belongs to it',
      work: {
        kind: 'run',
        command: asPostgres('createdb', ...port, ...PLAIN_TEXT, '--owner', 'chancery', 'chancery'),
        unless: asks("SELECT 1 FROM pg_database WHERE datname = 'chancery'"),
      },
    },
  ]
}
