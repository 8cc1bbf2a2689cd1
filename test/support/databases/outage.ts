/** Writes that are tried all the time, at the database itself and through an instance: how long was each away? */

import pg from 'pg'
import { type AcmeClient, registeredClient } from '../acme-client.ts'

/** Attempts begin this often, whatever became of the ones before. */
const EVERY_MS = 250
/** Shorter breaks are the machine's: it runs three servers, two instances and their clients. */
const BREAK_MS = 1_000

export interface Attempts {
  /** By `performance.now()`. */
  lastSuccess(): number | undefined
  /** Sum of the breaks of a second or more since the last success before `since`, in milliseconds. */
  outage(since: number): number
  stop(): void
}

/** On each host a new connection and one row, as libpq with a list of hosts would in the end. */
export function startWriter(hosts: readonly string[], port: number): Attempts {
  return startAttempts(hosts.map((host) => () => writeRow(host, port)))
}

async function writeRow(host: string, port: number): Promise<boolean> {
  const bounds = { connectionTimeoutMillis: 1_000, query_timeout: 2_000 }
  const client = new pg.Client({ host, port, user: 'postgres', database: 'postgres', ...bounds })
  client.on('error', () => undefined) // the statement fails with it
  try {
    await client.connect()
    await client.query('INSERT INTO written DEFAULT VALUES')
    return true
  } catch {
    return false // away, a standby, or cut off: what this measures
  } finally {
    void client.end()
  }
}

/** New orders at one instance. */
export async function startOrdering(directoryUrl: string, complaints: string[]): Promise<Attempts> {
  const client = await registeredClient(directoryUrl)
  let orders = 0
  return startAttempts([() => order(client, `outage-${++orders}.test`, complaints)])
}

async function order(client: AcmeClient, name: string, complaints: string[]): Promise<boolean> {
  try {
    const { status, headers, text } = await client.newOrder([name])
    const mayCome = (status === 503 && headers['retry-after'] !== undefined) || text.includes(':badNonce"')
    if (status !== 201 && !mayCome) complaints.push(`new-order: ${status} ${text}`)
    return status === 201
  } catch {
    return false // no answer
  }
}

function startAttempts(attempts: readonly (() => Promise<boolean>)[]): Attempts {
  const successes: number[] = []
  const begin = async (attempt: () => Promise<boolean>) => {
    if (await attempt()) successes.push(performance.now())
  }
  const timer = setInterval(() => {
    for (const attempt of attempts) void begin(attempt)
  }, EVERY_MS)
  return {
    lastSuccess: () => successes.at(-1),
    outage: (since) => outageIn(successes, since, performance.now()),
    stop: () => clearInterval(timer),
  }
}

function outageIn(successes: readonly number[], since: number, now: number): number {
  const before = successes.findLast((at) => at <= since) ?? since
  const times = [before, ...successes.filter((at) => at > since), now]
  const gaps = times.slice(1).map((at, index) => at - (times[index] as number))
  return gaps.filter((gap) => gap >= BREAK_MS).reduce((sum, gap) => sum + gap, 0)
}
