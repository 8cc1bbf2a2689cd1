/** Which servers are loaded in turn, and how often: one that runs, builds and other servers that the bench starts. */

import type { ServerPids } from '../measure/server-cpu.ts'
import type { Flag, Raw, Reader } from './reader.ts'

/** Another ACME server that runs already. What is undefined is as for the first server. */
export interface AgainstOptions {
  name: string
  directoryUrl: string
  clients: number | undefined
  challengeType: string | undefined
  http01: { host: string; http01Port: number } | undefined
  caCertificates: string | undefined
  insecure: boolean
  /** Without a service the one who listens on the directory's port is looked for; 0 looks for none. */
  pids: ServerPids
}

/** Another ACME server that the bench starts. */
export interface BesideOptions {
  name: BesideName
  clients: number | undefined
}

const BESIDE_NAMES = ['pebble', 'caddy'] as const
export type BesideName = (typeof BESIDE_NAMES)[number]

export interface ServerOptions {
  /** Start this tree instead of taking `--directory`; a comparison does so too. */
  start: boolean
  /** Commit to build and load as well. */
  compare: string | undefined
  beside: BesideOptions[]
  against: AgainstOptions[]
  /** How often each is loaded. */
  repeat: number
  /** Front threads of each service that the bench starts; undefined leaves it to them. */
  workers: number | undefined
  /** Processors that all servers it starts are bound to, as taskset(1) takes them. */
  serverCpus: string | undefined
}

export const SERVER_FLAGS: readonly Flag[] = [
  ['start', 'Start this tree with a database, a CA and ports of its own, instead of --directory'],
  ['compare', 'Commit, branch or tag: build it, and load this tree and it in turn, each with a service of its own'],
  ['beside', `Other servers to start on loopback and load in turn: ${BESIDE_NAMES.join(',')}; pebble=8 is 8 clients`],
  [
    'against',
    'Another server that runs: URL[,name=N][,clients=N][,challenge=T][,http01=HOST:PORT][,ca-cert=FILE][,insecure][,pid=N][,signer-pid=N][,postgres-pid=N]; may be repeated',
  ],
  ['repeat', 'How often each server is loaded with each scenario (default: 1, of several servers 3)'],
  ['workers', 'Of services that the bench starts: front threads (default: what the build takes)'],
  ['server-cpus', 'Of servers that the bench starts: their processors, such as 0-2 (needs taskset)'],
]

/** What services that the bench starts itself have ways of their own for. */
const NOT_WHEN_STARTED = [
  ...['directory', 'ca-cert', 'insecure', 'root', 'http01-port', 'http01-host', 'dns-port', 'tlsalpn01-port'],
  ...['server-pid', 'signer-pid', 'postgres-pid'],
]

const REPEAT_OF_SEVERAL = 3
const MOST_ROUNDS = 10_000
/** Front threads of a service. */
export const WORKERS = { min: 1, max: 1024 }

export function readServers(read: Reader, raw: Raw, fallbackOf: (flag: string) => unknown): ServerOptions {
  const ref = readRef(read, raw)
  const isAsked = read.flag('start')
  const start = isAsked || ref !== undefined
  const beside =
    raw.beside === undefined
      ? []
      : read
          .text('beside')
          .split(',')
          .flatMap((text) => readBeside(read, text))
  const against = listOf(raw.against).flatMap((text) => readAgainst(read, text))
  const severalServers = ref !== undefined || beside.length + against.length > 0
  const workers = read.optionalInteger('workers', WORKERS)
  const serverCpus = readCpus(read)
  if (!start && (workers !== undefined || (serverCpus !== undefined && beside.length === 0)))
    read.errors.push('--workers and --server-cpus are for servers that the bench starts')
  if (ref !== undefined && isAsked) read.errors.push('--start: --compare starts this tree anyway; name one of the two')
  if (start) refuseWhatIsKnown(read, raw, fallbackOf)
  return {
    ...{ start, compare: ref, beside, against, workers, serverCpus },
    repeat: read.optionalInteger('repeat', { min: 1, max: MOST_ROUNDS }) ?? (severalServers ? REPEAT_OF_SEVERAL : 1),
  }
}

/** Processors as taskset(1) takes them. */
export function readCpus(read: Reader): string | undefined {
  const text = read.optionalText('server-cpus')
  if (text !== undefined && !/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(text))
    read.errors.push(`--server-cpus ${text}: must look like 0-2 or 0,2`)
  return text
}

/** How many processors such a list names. */
export function countCpus(list: string): number {
  const named = list.split(',').flatMap((part) => {
    const [first = 0, last = first] = part.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
  return new Set(named).size
}

function readRef(read: Reader, raw: Raw): string | undefined {
  if (raw.compare === undefined) return undefined
  const ref = read.optionalText('compare') ?? ''
  if (ref === '' || ref.startsWith('-')) read.errors.push('--compare: name a commit, branch or tag')
  return ref
}

function refuseWhatIsKnown(read: Reader, raw: Raw, fallbackOf: (flag: string) => unknown): void {
  for (const flag of NOT_WHEN_STARTED) {
    if (raw[flag] !== undefined && raw[flag] !== false && raw[flag] !== fallbackOf(flag))
      read.errors.push(`--${flag}: --compare and --start start services themselves and know them`)
  }
}

function readBeside(read: Reader, text: string): BesideOptions[] {
  const [, word, clients] = /^([a-z]+)(?:=([1-9]\d{0,5}))?$/.exec(text.trim()) ?? []
  const name = BESIDE_NAMES.find((known) => known === word)
  if (name) return [{ name, clients: clients === undefined ? undefined : Number(clients) }]
  read.errors.push(`--beside ${text}: not one of ${BESIDE_NAMES.join(', ')}, or one of them with =CLIENTS`)
  return []
}

/** A URL may hold commas; settings begin at the first one that looks like one. */
function readAgainst(read: Reader, text: string): AgainstOptions[] {
  const [url = '', ...words] = text.split(/,(?=[a-z0-9-]+=|insecure(?:,|$))/)
  const settings = new Map(words.map((word) => [word.split('=', 1)[0] ?? '', word.slice(word.indexOf('=') + 1)]))
  const wrong = (what: string) => {
    read.errors.push(`--against ${text}: ${what}`)
    return []
  }
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return wrong('must begin with an http or https URL')
  for (const name of settings.keys()) if (!AGAINST_SETTINGS.has(name)) return wrong(`there is no setting ${name}`)

  const integer = (name: string) => {
    const value = settings.get(name)
    if (value !== undefined && !/^\d{1,7}$/.test(value)) wrong(`${name} must be a whole number`)
    return value === undefined ? undefined : Number(value)
  }
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(settings.get('http01') ?? '') ?? []
  if (settings.has('http01') && host === undefined) return wrong('http01 must be an address and a port, HOST:PORT')
  const caFile = settings.get('ca-cert')
  return [
    {
      name: settings.get('name') ?? new URL(url).host,
      directoryUrl: url,
      clients: integer('clients'),
      challengeType: settings.get('challenge'),
      http01: host === undefined ? undefined : { host, http01Port: Number(port) },
      caCertificates: caFile === undefined ? undefined : read.content('against', caFile),
      insecure: settings.has('insecure'),
      pids: givenPids({ service: integer('pid'), signer: integer('signer-pid'), postgres: integer('postgres-pid') }),
    },
  ]
}

const AGAINST_SETTINGS = new Set([
  ...['name', 'clients', 'challenge', 'http01', 'ca-cert', 'insecure'],
  ...['pid', 'signer-pid', 'postgres-pid'],
])

/** Without those that are to be looked for. */
export function givenPids(pids: { [K in keyof ServerPids]: number | undefined }): ServerPids {
  return Object.fromEntries(Object.entries(pids).filter(([, pid]) => pid !== undefined))
}

function listOf(value: unknown): string[] {
  if (value === undefined) return []
  return Array.isArray(value) ? value.map(String) : [String(value)]
}
