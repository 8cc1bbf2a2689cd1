/** Administrators of the stand. One reads the lists of the Admin API all the time in a soak, as a console does. */

import { execFile } from 'node:child_process'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { OWN_ROOT } from '../servers/build.ts'
import { Caller } from './acts/caller.ts'
import type { Incident } from './clients.ts'
import type { Stand } from './stand.ts'

const PATHS = [
  '/overview',
  '/certificates?limit=50',
  '/orders?limit=50',
  '/accounts?limit=50',
  '/audit-log',
  '/notifications',
]
const PAUSE_MS = 1_000

export interface Reading {
  /** Answers but 200. */
  complaints: Incident[]
  stop(): Promise<void>
}

/** @throws Error when the administrator cannot sign in */
export async function startReading(stand: Stand): Promise<Reading> {
  const caller = await (await createAdministrator(stand, 'reader')).signIn()
  const complaints: Incident[] = []
  const end = new AbortController()
  const reading = readUntil(end.signal, caller, complaints)
  // `stop` throws what it rejects with.
  reading.catch(() => undefined)
  return {
    complaints,
    async stop() {
      end.abort()
      await reading
    },
  }
}

async function readUntil(end: AbortSignal, caller: Caller, complaints: Incident[]): Promise<void> {
  while (!end.aborted) {
    for (const list of PATHS) {
      const { status, text } = await caller.send('GET', list)
      if (status !== 200) complaints.push({ at: Date.now(), what: `${list}: ${status} ${text}` })
    }
    // Rejects when the reading shall end; the loop ends then.
    await sleep(PAUSE_MS, undefined, { signal: end }).catch(() => undefined)
  }
}

/** Not synchronously: this process carries the connections to the database. */
export async function createAdministrator({ folder, instances: [{ port }] }: Stand, username: string): Promise<Caller> {
  const program = path.join(OWN_ROOT, 'dist/src/cli/main.js')
  const user = ['--username', username, '--email', `${username}@faults.test`, '--json']
  const words = [program, '-c', path.join(folder, 'instance-0.json'), 'admin', 'create-user', ...user]
  const { stdout } = await promisify(execFile)(process.execPath, words)
  const { password } = JSON.parse(stdout) as { password: string }
  return new Caller({ baseUrl: `https://127.0.0.1:${port}`, username, password })
}
