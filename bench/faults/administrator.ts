/** An administrator who reads the lists of the Admin API all the time, as a console does. */

import { execFile } from 'node:child_process'
import { request } from 'node:https'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { OWN_ROOT } from '../servers/build.ts'
import type { Incident } from './clients.ts'
import type { Stand } from './stand.ts'

const PATHS = [
  'overview',
  'certificates?limit=50',
  'orders?limit=50',
  'accounts?limit=50',
  'audit-log',
  'notifications',
]
const PAUSE_MS = 1_000
const TIMEOUT_MS = 10_000
/** A session ends after an hour (`admin_api.token_expiry_seconds`). */
const SESSION_MS = 1_800_000

export interface Reading {
  /** Answers but 200. */
  complaints: Incident[]
  stop(): Promise<void>
}

/** @throws Error when the administrator cannot sign in */
export async function startReading({ instances: [{ port }], folder }: Stand): Promise<Reading> {
  const password = await createAdministrator(path.join(folder, 'instance-0.json'))
  const signIn = () => newSession(port, password)
  const token = await signIn()
  const complaints: Incident[] = []
  const end = new AbortController()
  const reading = readUntil(end.signal, { port, token, signIn, complaints })
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

interface Reader {
  port: number
  token: string
  signIn(): Promise<string>
  complaints: Incident[]
}

async function readUntil(end: AbortSignal, { port, token, signIn, complaints }: Reader): Promise<void> {
  for (let current = token, since = Date.now(); !end.aborted; ) {
    if (Date.now() > since + SESSION_MS) [current, since] = [await signIn(), Date.now()]
    for (const list of PATHS) {
      const { status, text } = await ask(port, { path: `/api/${list}`, method: 'GET', token: current })
      if (status !== 200) complaints.push({ at: Date.now(), what: `/api/${list}: ${status} ${text}` })
    }
    // Rejects when the reading shall end; the loop ends then.
    await sleep(PAUSE_MS, undefined, { signal: end }).catch(() => undefined)
  }
}

/** @returns its token. @throws Error when the administrator cannot sign in */
async function newSession(port: number, password: string): Promise<string> {
  const login = { path: '/api/auth/login', method: 'POST', type: 'application/json' } as const
  const { status, text } = await ask(port, login, JSON.stringify({ username: 'reader', password }))
  if (status !== 200) throw new Error(`the administrator cannot sign in: ${status} ${text}`)
  return (JSON.parse(text) as { token: string }).token
}

/** Not synchronously: this process carries the connections to the database. @returns the password */
async function createAdministrator(configuration: string): Promise<string> {
  const program = path.join(OWN_ROOT, 'dist/src/cli/main.js')
  const user = ['--username', 'reader', '--email', 'reader@faults.test', '--json']
  const words = [program, '-c', configuration, 'admin', 'create-user', ...user]
  const { stdout } = await promisify(execFile)(process.execPath, words)
  return (JSON.parse(stdout) as { password: string }).password
}

interface Asked {
  path: string
  method: 'GET' | 'POST'
  type?: string
  token?: string
}

/** @returns status 0 with a few words where there is no answer */
function ask(port: number, asked: Asked, body = ''): Promise<{ status: number; text: string }> {
  const { path, method, type, token } = asked
  const headers = {
    ...(type !== undefined && { 'content-type': type }),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  }
  return new Promise((resolve) => {
    // Its certificate is the balancer's to check.
    const options = { host: '127.0.0.1', port, path, method, headers, rejectUnauthorized: false, timeout: TIMEOUT_MS }
    const sent = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
    })
    sent.once('timeout', () => sent.destroy(new Error('no answer within ten seconds')))
    sent.once('error', ({ message }) => resolve({ status: 0, text: message })).end(body)
  })
}
