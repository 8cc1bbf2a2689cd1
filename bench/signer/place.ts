/** A signer for the bench: keys in files and in a throw-away SoftHSM token, made by the signer's own commands. */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { outputOf } from '../servers/program.ts'

export type BenchKeyType = 'P-256' | 'P-384' | 'RSA-2048' | 'RSA-4096'

export interface KeyPlace {
  type: BenchKeyType
  /** Undefined: a key file. */
  sessions: number | undefined
}

export interface RunningSigner {
  pid: number
  socketPath: string
  secret: Buffer
  stop(): Promise<void>
}

const PROGRAM = fileURLToPath(new URL('../../signer/start.cjs', import.meta.url))
const TOKEN = 'bench'

/** One folder for all keys of a run. */
export class SignerPlace {
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'chancery-bench-signer-'))
  readonly #env = { ...process.env, SOFTHSM2_CONF: this.#at('softhsm', 'softhsm2.conf') }
  readonly #library: string
  #hasToken = false
  readonly #keys = new Set<string>()

  /** @param library SoftHSM's */
  constructor(library: string) {
    this.#library = library
  }

  #at(...names: string[]): string {
    return path.join(this.#folder, ...names)
  }

  #run(signal: AbortSignal, ...args: string[]): Promise<string> {
    return outputOf(process.execPath, [PROGRAM, ...args], this.#folder, signal, this.#env)
  }

  async #initToken(signal: AbortSignal): Promise<void> {
    if (this.#hasToken) return
    await this.#run(signal, 'init-softhsm', this.#at('softhsm'), '--label', TOKEN, '--library', this.#library)
    this.#hasToken = true
  }

  /** Both key places of one type are made once, with a certificate each. */
  async #makeKey({ type, sessions }: KeyPlace, signal: AbortSignal): Promise<string> {
    const name = `${sessions === undefined ? 'file' : 'token'}-${type}`
    if (this.#keys.has(name)) return name
    if (sessions !== undefined) await this.#initToken(signal)
    const place =
      sessions === undefined
        ? []
        : ['--library', this.#library, '--token', TOKEN, '--pin-file', this.#at('softhsm', 'pin'), '--label', type]
    const subject = ['--subject', `CN=Bench ${type}`, '--root-days', '30']
    await this.#run(signal, 'keygen', '--type', type, ...subject, '--out', this.#at(name), ...place)
    this.#keys.add(name)
    return name
  }

  /** Resolves when the daemon accepts connections. @throws Error with what it said instead; the signal's reason */
  async start(key: KeyPlace, signal: AbortSignal): Promise<RunningSigner> {
    const name = await this.#makeKey(key, signal)
    const pkcs11 = {
      library: this.#library,
      token: TOKEN,
      pin_file: this.#at('softhsm', 'pin'),
      label: key.type,
      sessions: key.sessions,
    }
    const secret = randomBytes(32)
    writeFileSync(this.#at('secret'), secret, { mode: 0o600 })
    const config = {
      socket: this.#at('signer.sock'),
      secret_file: this.#at('secret'),
      audit: { file: this.#at(`audit-${name}-${key.sessions ?? 0}.jsonl`) },
      log: { level: 'warn' },
      issuers: [
        {
          id: 'bench',
          certificate: this.#at(name, 'root.pem'),
          key: key.sessions === undefined ? { file: this.#at(name, 'key.pem') } : { pkcs11 },
        },
      ],
    }
    writeFileSync(this.#at('signer.json'), JSON.stringify(config), { mode: 0o600 })
    const child = spawn(process.execPath, [PROGRAM, '--with-parent', '-c', this.#at('signer.json')], {
      env: this.#env,
      // Ctrl-C is for the bench; should that be killed, standard input ends.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    await untilReady(child)
    return { pid: child.pid!, socketPath: config.socket, secret, stop: () => stop(child) }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

function untilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const said: string[] = []
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream! }).on('line', (line) => {
        said.push(line)
        if (line.includes('"signer ready"')) resolve()
      })
    }
    child.once('exit', (code) => reject(new Error(`the signer ended (${code}): ${said.join('\n')}`)))
  })
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
}
