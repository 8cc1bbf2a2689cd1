/** A program for the tests beside it: starts the embedded PostgreSQL on the folder given, says so in JSON, and stays. */

import { startEmbeddedPostgres } from '../../src/dev/postgres.ts'

const [dataDir = ''] = process.argv.slice(2)
const server = await startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })
console.log(JSON.stringify({ pid: server.pid, connection: server.connection }))
setInterval(() => undefined, 60_000)
