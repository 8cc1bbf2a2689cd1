/** The command line of the bench: every option with its default, its check and its sentence for `--help`. */

import { readFileSync } from 'node:fs'
import type { PollSettings } from './client/polling.ts'
import { SIGNING, type Signing } from './client/signer.ts'
import type { ServerPids } from './measure/server-cpu.ts'
import type { ResponderPlaces } from './responder/responders.ts'
import { ANSWERED_TYPES } from './scenario/challenge.ts'
import { isScenarioName, SCENARIOS, type ScenarioName } from './scenario/table.ts'

/** Of a comparison of this tree with a commit. */
export interface CompareOptions {
  ref: string
  rounds: number
  /** Front threads of each server; undefined leaves it to them. */
  workers: number | undefined
  /** Processors that both servers are bound to, as taskset(1) takes them. */
  serverCpus: string | undefined
}

export interface Options {
  /** Of a comparison, which starts its servers itself, it is not looked at; neither are roots, http-01 port and pids. */
  directoryUrl: string
  scenarios: ScenarioName[]
  clients: number
  processes: number
  accounts: number
  /** Undefined when `count` ends the run. */
  durationMs: number
  count: number | undefined
  warmupMs: number
  domainSuffix: string
  /** Of the challenge that clients choose. */
  challengeType: string
  responders: ResponderPlaces
  caCertificates: string | undefined
  insecure: boolean
  rootCertificate: string | undefined
  timeoutMs: number
  poll: PollSettings
  signing: Signing
  /** `service` absent: look for it when the directory is on this machine; 0: do not look. */
  pids: ServerPids
  jsonFile: string | undefined
  compare: CompareOptions | undefined
}

/** Name, sentence, default: what `--help` shows and what is accepted. */
export const FLAGS: readonly (readonly [name: string, sentence: string, fallback?: string | number])[] = [
  ['directory', 'URL of the ACME directory', 'https://localhost:8443/directory'],
  ['scenario', `What to do, in turn if several, or "all": ${Object.keys(SCENARIOS).join(',')}`, 'full-flow'],
  ['clients', 'Clients that each begin an operation when their last one ended', 16],
  ['processes', 'Generator processes the clients are divided among', 1],
  ['accounts', 'Accounts used in turn (default: one per client)'],
  ['duration', 'Seconds to measure', 10],
  ['count', 'Operations to measure, instead of a duration'],
  ['warmup', 'Seconds to run before measuring', 2],
  ['domain-suffix', 'End of the names that are ordered', '.test'],
  [
    'challenge',
    `Challenge that clients choose: ${ANSWERED_TYPES.join(', ')}, or one that the server validates without asking us`,
    'http-01',
  ],
  ['http01-port', 'Port that answers http-01 challenges; 0 answers none', 5002],
  ['dns-port', 'Port of the name server that answers dns-01, dns-account-01 and dns-persist-01; 0 answers none', 5053],
  ['tlsalpn01-port', 'Port that answers tls-alpn-01 challenges; 0 answers none', 5001],
  ['http01-host', 'Address that answers challenges, of whatever type', '127.0.0.1'],
  ['ca-cert', 'PEM file of the roots to trust for TLS'],
  ['insecure', 'Accept any TLS certificate'],
  ['root', 'PEM file of the root that issued chains must lead to'],
  ['timeout', 'Seconds to wait for an answer, and for a validation', 30],
  ['poll-interval', 'Milliseconds before the first poll, doubled after each', 10],
  ['poll-max', 'Longest wait between polls in milliseconds; bounds Retry-After too', 250],
  ['obey-retry-after', 'Wait as long as Retry-After says between polls'],
  ['signing', `How clients sign: ${SIGNING.join(', ')} (cheap, reveals its throwaway keys), or auto`, 'auto'],
  ['server-pid', 'Process id of the service (default: who listens on the directory port here); 0 for none'],
  ['signer-pid', 'Process id of the signer (default: found below the service)'],
  ['postgres-pid', 'Process id of the PostgreSQL server (default: found below the service)'],
  ['json', 'File to write the results to'],
  ['compare', 'Commit, branch or tag: build it, and load this tree and it in turn, each with a service of its own'],
  ['rounds', 'With --compare: how often each is loaded', 3],
  ['workers', 'With --compare: front threads of each service (default: what the build takes)'],
  ['server-cpus', 'With --compare: processors of both services, such as 0-2 (needs taskset)'],
]

/** What --compare finds out by itself. */
const NOT_WITH_COMPARE = [
  ...['directory', 'ca-cert', 'insecure', 'root', 'http01-port', 'http01-host', 'dns-port', 'tlsalpn01-port'],
  ...['server-pid', 'signer-pid', 'postgres-pid'],
]

type Raw = Readonly<Record<string, unknown>>

/** @throws OptionsError naming everything that is wrong. */
export function parseOptions(raw: Raw): Options {
  const read = new Reader(raw)
  const clients = read.integer('clients', { min: 1 })
  const processes = read.integer('processes', { min: 1 })
  const directoryUrl = read.url('directory')
  const timeoutMs = 1000 * read.number('timeout')
  const options: Options = {
    directoryUrl,
    scenarios: readScenarios(read),
    clients,
    processes,
    accounts: read.optionalInteger('accounts', 1) ?? clients,
    durationMs: 1000 * read.number('duration'),
    count: read.optionalInteger('count', 1),
    warmupMs: 1000 * read.number('warmup'),
    domainSuffix: readSuffix(read),
    challengeType: readChallenge(read),
    responders: {
      host: read.text('http01-host'),
      http01Port: read.integer('http01-port', { min: 0, max: 65535 }),
      dnsPort: read.integer('dns-port', { min: 0, max: 65535 }),
      tlsAlpn01Port: read.integer('tlsalpn01-port', { min: 0, max: 65535 }),
    },
    caCertificates: read.file('ca-cert'),
    insecure: read.flag('insecure'),
    rootCertificate: read.file('root'),
    timeoutMs,
    poll: {
      intervalMs: read.number('poll-interval'),
      maxIntervalMs: read.number('poll-max'),
      obeyRetryAfter: read.flag('obey-retry-after'),
      timeoutMs,
    },
    signing: readSigning(read, directoryUrl),
    pids: readPids(read),
    jsonFile: read.optionalText('json'),
    compare: readCompare(read, raw),
  }
  if (processes > clients) read.errors.push(`--processes ${processes}: more than --clients ${clients}`)
  if (options.accounts < processes)
    read.errors.push(`--accounts ${options.accounts}: fewer than --processes ${processes}`)
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return options
}

export class OptionsError extends Error {
  constructor(errors: readonly string[]) {
    super(errors.join('\n'))
    this.name = 'OptionsError'
  }
}

/** True for names and addresses that never leave this machine. */
export function isLoopback(url: string): boolean {
  const { hostname } = new URL(url)
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127(\.\d+){3}$/.test(hostname)
  )
}

function readScenarios(read: Reader): ScenarioName[] {
  const text = read.text('scenario')
  if (text === 'all') return Object.keys(SCENARIOS).filter(isScenarioName)
  const names = text.split(',').map((name) => name.trim())
  for (const name of names) {
    if (!isScenarioName(name)) read.errors.push(`--scenario ${name}: not one of ${Object.keys(SCENARIOS).join(', ')}`)
  }
  return names.filter(isScenarioName)
}

function readSuffix(read: Reader): string {
  const suffix = read.text('domain-suffix')
  if (!/^(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/.test(suffix)) {
    read.errors.push(`--domain-suffix ${suffix}: must look like .test or .bench.example.com`)
  }
  return suffix
}

function readChallenge(read: Reader): string {
  const type = read.text('challenge')
  if (!/^[a-z0-9-]+$/.test(type)) read.errors.push(`--challenge ${type}: must be the name of a method such as http-01`)
  return type
}

/** Keys that signing gives away are for this machine only, unless the user says otherwise. */
function readSigning(read: Reader, directoryUrl: string): Signing {
  const text = read.text('signing')
  if (text === 'auto') return directoryUrl !== '' && isLoopback(directoryUrl) ? 'precomputed' : 'openssl'
  const known = SIGNING.find((signing) => signing === text)
  if (!known) read.errors.push(`--signing ${text}: not one of auto, ${SIGNING.join(', ')}`)
  return known ?? 'openssl'
}

function readPids(read: Reader): ServerPids {
  const service = read.optionalInteger('server-pid', 0)
  const signer = read.optionalInteger('signer-pid', 1)
  const postgres = read.optionalInteger('postgres-pid', 1)
  return {
    ...(service !== undefined && { service }),
    ...(signer !== undefined && { signer }),
    ...(postgres !== undefined && { postgres }),
  }
}

function readCompare(read: Reader, raw: Raw): CompareOptions | undefined {
  const rounds = read.integer('rounds', { min: 1 })
  const workers = read.optionalInteger('workers', 1)
  const serverCpus = read.optionalText('server-cpus')
  if (serverCpus !== undefined && !/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(serverCpus))
    read.errors.push(`--server-cpus ${serverCpus}: must look like 0-2 or 0,2`)
  if (raw.compare === undefined) {
    if (workers !== undefined || serverCpus !== undefined)
      read.errors.push('--workers and --server-cpus are for the services that --compare starts')
    return undefined
  }
  const ref = read.optionalText('compare') ?? ''
  if (ref === '' || ref.startsWith('-')) read.errors.push('--compare: name a commit, branch or tag')
  for (const flag of NOT_WITH_COMPARE) {
    const fallback = FLAGS.find(([name]) => name === flag)?.[2]
    if (raw[flag] !== undefined && raw[flag] !== false && raw[flag] !== fallback)
      read.errors.push(`--${flag}: --compare starts its services itself and knows them`)
  }
  return { ref, rounds, workers, serverCpus }
}

/** Reads values as the argument parser left them and gathers what is wrong with them. */
class Reader {
  readonly errors: string[] = []
  readonly #raw: Raw

  constructor(raw: Raw) {
    this.#raw = raw
  }

  optionalText(name: string): string | undefined {
    const value = this.#raw[name]
    if (value === undefined) return undefined
    if (typeof value === 'string' || typeof value === 'number') return String(value)
    this.errors.push(`--${name}: give it one value`)
    return undefined
  }

  text(name: string): string {
    return this.optionalText(name) ?? ''
  }

  flag(name: string): boolean {
    const value = this.#raw[name] ?? false
    if (typeof value !== 'boolean') this.errors.push(`--${name}: takes no value`)
    return value === true
  }

  number(name: string): number {
    const value = Number(this.text(name) || Number.NaN)
    if (!(value >= 0 && Number.isFinite(value)))
      this.errors.push(`--${name} ${this.text(name)}: must be a number from 0`)
    return value
  }

  integer(name: string, { min, max = 1_000_000_000 }: { min: number; max?: number }): number {
    const value = Number(this.text(name) || Number.NaN)
    if (Number.isInteger(value) && value >= min && value <= max) return value
    this.errors.push(`--${name} ${this.text(name)}: must be a whole number from ${min}`)
    return min
  }

  optionalInteger(name: string, min: number): number | undefined {
    return this.#raw[name] === undefined ? undefined : this.integer(name, { min })
  }

  url(name: string): string {
    const text = this.text(name)
    if (/^https?:\/\//.test(text) && URL.canParse(text)) return text
    this.errors.push(`--${name} ${text}: must be an http or https URL`)
    return ''
  }

  file(name: string): string | undefined {
    const path = this.optionalText(name)
    if (path === undefined) return undefined
    try {
      return readFileSync(path, 'utf8')
    } catch (error) {
      this.errors.push(`--${name} ${path}: ${(error as Error).message}`)
      return undefined
    }
  }
}
