/**
 * A whole service as an operator runs it: `chancery -c FILE serve` as a process of its own, with a signer, a development
 * CA and a database of its own. Plain HTTP on loopback; http-01 asks a free port; `.test` resolves to loopback.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { stringify } from 'yaml'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import { testCa } from './ca.ts'
import { databaseConfig, type TestDatabase, testDatabase } from './database.ts'
import { freePort } from './free-port.ts'
import { OTHER_ENVIRONMENT, OTHER_UMASK } from './other-world.ts'
import { WAIT_MS } from './patience.ts'
import { until } from './until.ts'
import { noteStart } from './used-parts.ts'

/** One line of the service's log. */
export type LogLine = { message: string; level: string; [fact: string]: unknown }

export interface TestServiceOptions {
  /** Two, so that whatever threads remember shows. One starts in three quarters of the time, where that is not the subject. */
  fronts?: 1
  /** Sections as in the configuration file, laid over those below, member by member. */
  config?: Record<string, unknown>
  /** Another service of this file, to start again on what it left behind. The maker of that one drops it. */
  continueFrom?: TestService
  /** A database of a server that the test wants for itself; `dispose` drops it like one of our own. */
  database?: TestDatabase
  /** A service of this file that this one shares its database with; that one drops it, after this one has ended. */
  beside?: TestService
  /** The check-out whose build runs; without it, the one of this file. */
  root?: string
}

export interface TestService {
  baseUrl: string
  directoryUrl: string
  http01Port: number
  ca: DevCaFiles
  database: TestDatabase
  folder: string
  port: number
  process: ChildProcess
  log: LogLine[]
  /** The newest line with this message, or the next one to come. */
  waitForLog(message: string, timeoutMs?: number): Promise<LogLine>
  /** The newest line that is wanted. Lines come after the reply that they are about: a front thread's a second later. */
  untilLogged(what: string, isWanted: (line: LogLine) => boolean): Promise<LogLine>
  signerPid(): number
  /** SIGTERM and wait. @returns the exit code */
  stop(): Promise<number | null>
  /** SIGKILL and wait for the end. */
  kill(): Promise<void>
  /** `stop` if it still runs, and nothing is left behind. */
  dispose(): Promise<void>
}

const ROOT = path.resolve(import.meta.dirname, '../../..')
const CLI = 'dist/src/cli/main.js'

export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { continueFrom: former } = options
  const folder = former?.folder ?? mkdtempSync(path.join(tmpdir(), 'chancery-test-'))
  const database = former?.database ?? options.beside?.database ?? options.database ?? (await testDatabase())
  const ca = await testCa(path.join(folder, 'ca'))
  const port = former?.port ?? (await freePort())
  const http01Port = former?.http01Port ?? (await freePort())
  const baseUrl = `http://127.0.0.1:${port}`
  const configFile = path.join(folder, 'config.yaml')
  const base = baseConfig({ baseUrl, port, http01Port, ca, database, folder }, options.fronts ?? 2)
  // An earlier release does not know the key.
  const ofThis =
    options.root === undefined ? { database: { decisions_file: path.join(folder, 'decisions.jsonl') } } : {}
  writeFileSync(configFile, stringify(overlay(overlay(base, ofThis), options.config ?? {})))

  const startedAt = performance.now()
  const program = [process.execPath, path.join(options.root ?? ROOT, CLI), '-c', configFile, 'serve']
  const child = spawn('/bin/sh', ['-c', `umask ${OTHER_UMASK}; exec "$@"`, 'sh', ...program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...OTHER_ENVIRONMENT },
  })
  const log: LogLine[] = []
  const listeners = new Set<(line: LogLine) => void>()
  const complaints: string[] = []
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (text) => {
    const line = JSON.parse(text) as LogLine
    log.push(line)
    for (const listener of listeners) listener(line)
  })
  createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => complaints.push(line))
  // Its last lines have been read then.
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve))

  const service: TestService = {
    baseUrl,
    directoryUrl: `${baseUrl}/directory`,
    http01Port,
    ca,
    database,
    folder,
    port,
    process: child,
    log,
    waitForLog(message, timeoutMs = WAIT_MS) {
      const known = log.findLast((line) => line.message === message)
      if (known) return Promise.resolve(known)
      return new Promise((resolve, reject) => {
        const finish = () => {
          clearTimeout(timer)
          listeners.delete(listener)
        }
        const listener = (line: LogLine) => {
          if (line.message !== message) return
          finish()
          resolve(line)
        }
        const timer = setTimeout(() => {
          finish()
          reject(
            new Error(
              `the service did not say "${message}" in time; it said: ${[...complaints, ...log.slice(-5).map((line) => JSON.stringify(line))].join('\n')}`,
            ),
          )
        }, timeoutMs)
        listeners.add(listener)
        void exited.then((code) => {
          finish()
          reject(new Error(`the service ended (${code}) before it said "${message}": ${complaints.join('\n')}`))
        })
      })
    },
    untilLogged: (what, isWanted) => until(`a line of the log: ${what}`, () => log.findLast(isWanted)),
    signerPid() {
      const ready = log.findLast((line) => line.message === 'signer ready')
      if (typeof ready?.pid !== 'number') throw new Error('the signer has not started')
      return ready.pid
    },
    async stop() {
      child.kill('SIGTERM')
      return exited
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    async dispose() {
      if (child.exitCode === null && child.signalCode === null) await service.stop()
      if (former) return
      if (!options.beside) await database.drop()
      const open = writableByAll(folder)
      rmSync(folder, { recursive: true, force: true })
      const misfit = log.find(({ event }) => event === 'event_misfit')
      if (misfit) throw new Error(`the service wrote an event that EVENTS does not describe: ${JSON.stringify(misfit)}`)
      if (open.length > 0) throw new Error(`every user may write into what the service made: ${open.join(', ')}`)
    },
  }
  try {
    await service.waitForLog('service ready')
    noteStart('service', startedAt, child.pid)
    if (log.some((line) => line.message === 'signer ready')) noteStart('signer', startedAt, service.signerPid())
  } catch (error) {
    await service.kill()
    throw error
  }
  return service
}

function writableByAll(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => {
    const facts = lstatSync(path.join(folder, name), { throwIfNoEntry: false })
    return facts !== undefined && !facts.isSymbolicLink() && (facts.mode & 0o002) !== 0
  })
}

interface Place {
  baseUrl: string
  port: number
  http01Port: number
  ca: DevCaFiles
  database: TestDatabase
  folder: string
}

function baseConfig(
  { baseUrl, port, http01Port, ca, database, folder }: Place,
  workers: number,
): Record<string, unknown> {
  return {
    // A machine that runs many tests at a time is slow; the tests of overload switch it on.
    server: {
      external_url: baseUrl,
      bind: '127.0.0.1',
      port,
      workers,
      graceful_timeout: 5,
      overload: { enabled: false },
    },
    database: { ...databaseConfig(database.connection), max_connections: 20 },
    ca: {
      internal: { root_cert_path: ca.intermediate, root_key_path: ca.intermediateKey, chain_path: ca.root },
      signer: { audit_file: path.join(folder, 'signer-audit.jsonl') },
    },
    challenges: { http01: { port: http01Port, blocked_networks: [] }, backoff_base_seconds: 1, retry_after_seconds: 1 },
    dns: { zones: [{ zone: 'test', addresses: ['127.0.0.1'] }] },
    // On a machine that stands still for a moment, too, the reply to finalize has the certificate.
    order: { finalize_wait_ms: 8000 },
    // All clients of a test have one address; the tests of the limits set their own.
    security: { rate_limits: { enabled: false } },
    metrics: { enabled: true },
    // The thread that sends them takes as long to start as the rest; the tests of events and the Admin API have it.
    notifications: { enabled: false },
  }
}

function overlay(base: Record<string, unknown>, over: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...base }
  for (const [name, value] of Object.entries(over)) {
    const below = merged[name]
    merged[name] = isSection(value) && isSection(below) ? overlay(below, value) : value
  }
  return merged
}

function isSection(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Text of the root certificate, for clients and openssl. */
export function rootPem(service: TestService): string {
  return readFileSync(service.ca.root, 'utf8')
}
