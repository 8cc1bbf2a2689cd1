/**
 * The form of a check of `chancery doctor`, and the facts that checks judge: each is fetched once, when the first check
 * asks for it, and shared.
 *
 * A fact that cannot be had throws CannotTell, with the reason that all checks repeat.
 */

import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import path from 'node:path'
import { loadConfig as loadSignerConfig, type SignerConfig } from '../../signer/config.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { PATHS } from '../installation/places.ts'
import { urlSettings } from '../settings/server-settings.ts'
import type { ConfigNotice } from '../shared/config-file/notice.ts'
import { messageOf } from '../shared/lib/errors.ts'
import { startOf } from '../shared/lib/processes.ts'
import { encodePem } from '../shared/pki/pem.ts'
import { type FixedResource, Urls } from '../shared/protocol/urls.ts'
import { type Diagnosis, type DiagnosisName, type DiagnosisRows, openDatabaseFor } from './facts/database.ts'
import { type Answer, type Ask, type Asked, ask, type NoAnswer, UNRESOLVED } from './facts/http.ts'
import { connectForFacts, type SignerFacts } from './facts/signer.ts'
import { type Area, AS_ROOT, CannotTell, type Found, failure, type Verdict } from './verdict.ts'

export interface Check {
  id: `${Area}.${string}`
  /** A sentence that is true when the check finds nothing. */
  title: string
  look(sources: Sources): Found | Promise<Found>
}

export const areaOf = ({ id }: Pick<Check, 'id'>): Area => id.slice(0, id.indexOf('.')) as Area

interface DoctorOptions {
  /** The configuration of the service. */
  configFile: string
  loaded: LoadedConfig
  /** The file that the operator names; without one it is `signer.yaml` beside the configuration. */
  signerConfigFile: string | undefined
  /** The name of a client's host; challenges would reach its ports. */
  target: string | undefined
  testSign: boolean
  version: string
  inspectFiles(config: Config): { errors: ConfigNotice[]; warnings: ConfigNotice[] }
}

export class Sources {
  readonly options: DoctorOptions
  readonly #known = new Map<string, unknown>()
  readonly #closers: (() => Promise<void>)[] = []

  constructor(options: DoctorOptions) {
    this.options = options
  }

  #once<T>(key: string, make: () => T): T {
    if (!this.#known.has(key)) this.#known.set(key, make())
    return this.#known.get(key) as T
  }

  get config(): Config {
    const { loaded } = this.options
    if (!loaded.ok) throw new CannotTell('the configuration is not valid')
    return loaded.config
  }

  /** The absolute path; undefined where no file is named and none lies beside the configuration. */
  get signerConfigFile(): string | undefined {
    const { signerConfigFile, configFile } = this.options
    if (signerConfigFile !== undefined) return path.resolve(signerConfigFile)
    const beside = path.join(path.dirname(path.resolve(configFile)), path.basename(PATHS.signerConfig))
    return existsSync(beside) ? beside : undefined
  }

  /** The configuration of a signer that runs by itself. */
  signerConfig(): SignerConfig {
    return this.#once('signer-config', () => {
      const file = this.signerConfigFile
      const name = 'name it with --signer-config FILE'
      if (file === undefined) throw new CannotTell(`the configuration of the signer is not on this host`, name)
      try {
        return loadSignerConfig(file)
      } catch (error) {
        const isClosed = /EACCES|permission/i.test(messageOf(error))
        throw new CannotTell(messageOf(error), isClosed ? AS_ROOT : name)
      }
    })
  }

  /** The process of the service; undefined where none with this configuration is seen on this host. */
  process(): ServiceProcess | undefined {
    return this.#once('process', () => findService(path.resolve(this.options.configFile)))
  }

  requireProcess(): ServiceProcess {
    const found = this.process()
    if (!found) throw new CannotTell('no process of this configuration is seen on this host')
    return found
  }

  database(): Promise<Diagnosis> {
    return this.#once('database', async () => {
      const opened = await openDatabaseFor(this.config)
      this.#closers.push(() => opened.close())
      return opened
    })
  }

  read<N extends DiagnosisName>(name: N): Promise<DiagnosisRows[N]> {
    return this.#once(`rows ${name}`, async () => {
      const database = await this.database()
      return database.read(name).catch((error) => {
        throw new CannotTell(`the database says: ${messageOf(error)}`)
      })
    })
  }

  signer(): Promise<SignerFacts> {
    return this.#once('signer', async () => connectForFacts(this.config, this.options.testSign))
  }

  /** PEM of the top of each issuer's chain, which clients of this CA trust. */
  async roots(): Promise<readonly string[]> {
    const { issuers } = await this.signer().catch(() => ({ issuers: [] }))
    const tops = issuers.flatMap(({ chain, alternateChains }) => [chain, ...alternateChains]).map((one) => one.at(-1)!)
    return tops.map((der) => encodePem('CERTIFICATE', der))
  }

  /**
   * Asks as a client does, through every proxy.
   * @param local below the path of the external URL
   */
  publicly(local: string, options: Ask = {}): Promise<Asked> {
    return this.#once(`public ${local} ${JSON.stringify(options)}`, async () => {
      const trustedRoots = await this.roots()
      return ask(this.#base + local, { trustedRoots, ...options })
    })
  }

  /** Asks the service's own port, past every proxy. */
  directly(local: string, options: Ask = {}): Promise<Asked> {
    return this.#once(`direct ${local} ${JSON.stringify(options)}`, () => {
      const { bind, port, tls } = this.config.server
      const host = bind === '0.0.0.0' ? '127.0.0.1' : bind === '::' ? '::1' : bind
      const url = new URL(this.#base + local)
      url.protocol = tls.cert_path === null ? 'http:' : 'https:'
      return ask(url.href, { to: { host, port }, ...options })
    })
  }

  /** @throws CannotTell where nothing answers at the public URL */
  async publicAnswer(local: string, options?: Ask): Promise<Answer> {
    return requireAnswer(await this.publicly(local, options), 'the public URL')
  }

  /** @throws CannotTell where the service does not answer */
  async serviceAnswer(local: string, options?: Ask): Promise<Answer> {
    return requireAnswer(await this.directly(local, options), 'the service')
  }

  /** Asks without credentials, as any client would. */
  fetch(url: string): Promise<Asked> {
    return this.#once(`fetch ${url}`, () => ask(url))
  }

  /** The path of a resource below the external URL. */
  local(resource: FixedResource): string {
    return this.urls.fixed(resource).slice(this.#base.length)
  }

  get urls(): Urls {
    return this.#once('urls', () => new Urls(urlSettings(this.config)))
  }

  get #base(): string {
    return this.config.server.external_url.replace(/\/$/, '')
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#closers.map((close) => close()))
  }
}

/** @param mend the advice; for a name that does not resolve, advice on DNS comes before it */
export const noAnswer = ({ failure: why, who }: NoAnswer, says: string, mend: string): Verdict => ({
  ...failure(
    `${says}: ${why}`,
    why === UNRESOLVED ? `let DNS or /etc/hosts of this host know ${who}, or ${mend}` : mend,
  ),
  who,
})

/** @throws CannotTell */
export function requireAnswer(asked: Asked, who: string): Answer {
  if (asked.answer) return asked.answer
  throw new CannotTell(`${who} does not answer: ${asked.failure}`, undefined, asked.who)
}

interface ServiceProcess {
  pid: number
  uid: number
  startedAt: Date
  /** Undefined where the doctor's user may not read it. */
  openFilesLimit: number | undefined
}

/**
 * Finds the process of the service on this host by its command line in /proc.
 * @param configFile absolute
 */
function findService(configFile: string): ServiceProcess | undefined {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const pid = pids.find((one) => isService(one, configFile))
  if (pid === undefined) return undefined
  // The folder of a process is made when it starts.
  const { uid } = statSync(`/proc/${pid}`)
  return { pid: Number(pid), uid, startedAt: startOf(Number(pid)), openFilesLimit: openFilesLimit(pid) }
}

function isService(pid: string, configFile: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    const program = words.findIndex((word) => /(?:cli\/main\.js|\/chancery)$/.test(word))
    const commands = words.slice(program + 1).filter((word) => /^[a-z]+$/.test(word))
    const at = words.findIndex((word) => word === '-c' || word === '--config')
    const isServe = program >= 0 && at >= 0 && commands.every((word) => word === 'serve')
    return isServe && path.resolve(folderOf(pid), words[at + 1] ?? '') === configFile
  } catch {
    return false // it has ended, or belongs to somebody else
  }
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return '/'
  }
}

function openFilesLimit(pid: string): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/limits`, 'utf8')
    const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(text)?.[1]
    return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard)
  } catch {
    return undefined
  }
}
