/** Runs the real daemon as a process of its own, which ends with the process that started it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { programFile } from '../../src/shared/lib/program-files.ts'
import { noteStart } from '../support/run/used-parts.ts'
import { type Authority, type SignerFiles, type TokenKeyYaml, writeSignerFiles } from './authority.ts'

export const SIGNER_PROGRAM = fileURLToPath(programFile('signer/start.cts'))

export interface Daemon {
  process: ChildProcess
  /** Everything written so far, both streams. */
  output(): string
  /** Resolves when it has written this: a log line and an answer that belong together come by two ways. */
  wrote(what: RegExp): Promise<void>
  /** Sends the signal and waits for the end. @returns exit code or signal name. */
  stop(signal?: NodeJS.Signals): Promise<number | string>
}

/** Resolves at the line "signer ready". @throws Error with the output when the daemon ends before. */
export async function startDaemon(
  config: string,
  nodeOptions: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  program = SIGNER_PROGRAM,
): Promise<Daemon> {
  const child = spawn(process.execPath, [...nodeOptions, program, '--with-parent', '-c', config], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  const startedAt = performance.now()
  const lines: string[] = []
  const ended = once(child, 'close')
  child.stderr.on('data', (chunk: Buffer) => lines.push(chunk.toString('utf8')))
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line)
      if (!line.includes('"signer ready"')) return
      noteStart('signer', startedAt, child.pid)
      resolve()
    })
    ended.then(() => reject(new Error(`the daemon ended early:\n${lines.join('\n')}`)), reject)
  })
  return {
    process: child,
    output: () => lines.join('\n'),
    async wrote(what) {
      while (!what.test(lines.join('\n'))) {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`the daemon ended without ${what}:\n${lines.join('\n')}`)
        await sleep(10)
      }
    },
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal)
      const [code, name] = (await ended) as [number | null, NodeJS.Signals | null]
      return code ?? name ?? 'unknown'
    },
  }
}

interface SignerOptions {
  yaml?: string
  policyYaml?: string
  tokenKeys?: Readonly<Record<string, TokenKeyYaml>>
  env?: NodeJS.ProcessEnv
  backend?: Omit<ConstructorParameters<typeof SignerBackend>[0], 'socketPath' | 'secret'>
}

/** A daemon with its files and the connections of a service to it. `end` leaves nothing of them. */
export class TestSigner {
  readonly #authorities: Record<string, Authority>
  readonly #options: SignerOptions
  files!: SignerFiles
  daemon!: Daemon
  #backend: SignerBackend | undefined
  #client: SignerClient | undefined

  constructor(authorities: Record<string, Authority>, options: SignerOptions = {}) {
    this.#authorities = authorities
    this.#options = options
  }

  write(): void {
    const { yaml, policyYaml, tokenKeys } = this.#options
    this.files = writeSignerFiles(this.#authorities, yaml, policyYaml, tokenKeys)
  }

  async launch(): Promise<void> {
    this.daemon = await startDaemon(this.files.config, [], this.#options.env)
  }

  async start(): Promise<void> {
    this.write()
    await this.launch()
  }

  async restart(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.daemon.stop(signal)
    await this.launch()
  }

  get place() {
    return { socketPath: this.files.socket, secret: this.files.secret }
  }

  /** Of a service's `ca.signer`. */
  get section() {
    return { socket: this.files.socket, secret_file: this.at('secret') }
  }

  at(name: string): string {
    return path.join(this.files.folder, name)
  }

  get backend(): SignerBackend {
    this.#backend ??= new SignerBackend({ ...this.place, ...this.#options.backend })
    return this.#backend
  }

  get client(): SignerClient {
    this.#client ??= new SignerClient(this.place)
    return this.#client
  }

  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#backend?.close()
    await this.#client?.close()
    this.#backend = this.#client = undefined
    await this.daemon?.stop(signal)
    rmSync(this.files.folder, { recursive: true, force: true })
  }
}

/** One for a file or suite. */
export function useSigner(...how: ConstructorParameters<typeof TestSigner>): TestSigner {
  const signer = new TestSigner(...how)
  before(() => signer.start())
  after(() => signer.end())
  return signer
}

/** One for a test, which starts it; without it there are its files. */
export async function withSigner(
  work: (signer: TestSigner) => Promise<void>,
  ...how: ConstructorParameters<typeof TestSigner>
): Promise<void> {
  const signer = new TestSigner(...how)
  signer.write()
  try {
    await work(signer)
  } finally {
    await signer.end()
  }
}
