/** The command line of the bench: every option with its default, its check and its sentence for `--help`. */

import type { PollSettings } from '../client/polling.ts'
import { SIGNING, type Signing } from '../client/signer.ts'
import type { ServerPids } from '../measure/server-cpu.ts'
import type { ResponderPlaces } from '../responder/responders.ts'
import { ANSWERED_TYPES } from '../scenario/challenge.ts'
import { isScenarioName, ONLY_BY_NAME, SCENARIOS, type ScenarioName } from '../scenario/table.ts'
import { type OpenOptions, RATE_FLAGS, readOpen } from './rate.ts'
import { COUNT, type Flag, OptionsError, type Raw, Reader, SECONDS, SECONDS_AT_LEAST, withDefaults } from './reader.ts'
import { givenPids, readServers, SERVER_FLAGS, type ServerOptions } from './servers.ts'

export interface Options {
  /** Of the first server, unless the bench starts it itself; so are roots, http-01 port and pids. */
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
  /** Accounts to use again; new ones are written to it. */
  accountsFile: string | undefined
  /** Reads of renewal information before a renewal. */
  renewalReads: number
  /** Reads of the CRL after a renewal; undefined is one, where the certificate names a CRL. */
  crlReads: number | undefined
  /** Challenges that wait while others are measured. */
  storm: number
  /** Scenarios that the server does not offer are left out. */
  skipsUnsupported: boolean
  open: OpenOptions
  servers: ServerOptions
  /** Of the service, when the bench has started it: who has that can look at it as its administrator. */
  dataDir: string | undefined
  jsonFile: string | undefined
  htmlFile: string | undefined
}

/** Of every way to load a server. */
export const COMMON_FLAGS: readonly Flag[] = [
  ['directory', 'URL of the ACME directory', 'https://localhost:8443/directory'],
  [
    'scenario',
    `What to do, in turn if several, or "all" but validation-storm: ${Object.keys(SCENARIOS).join(',')}`,
    'full-flow',
  ],
  ['clients', 'Clients that each begin an operation when their last one ended', 16],
  ['processes', 'Generator processes the clients are divided among', 1],
  ['accounts', 'Accounts used in turn (default: one per client)'],
  ['accounts-file', 'File with accounts of earlier runs; new ones are added to it. It holds their keys'],
  ['duration', 'Seconds to measure', 10],
  ['count', 'Operations to measure, instead of a duration'],
  ['warmup', 'Seconds to run before measuring', 2],
  ['renewal-reads', 'Of the scenario renewal: reads of renewal information before each renewal', 60],
  [
    'crl-reads',
    'Of the scenario renewal: reads of the CRL that the new certificate names (default: 1, where it names one)',
  ],
  ['storm', 'Of the scenario validation-storm: challenges that wait for their targets', 2000],
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
  ['html', 'File to write a report with plots to'],
]

export const FLAGS: readonly Flag[] = [...COMMON_FLAGS, ...RATE_FLAGS, ...SERVER_FLAGS]

/** Bounds that a slip of the finger meets, and nothing that a machine of today could do. */
const MOST_CLIENTS = 100_000
const MOST_PROCESSES = 1024
const MOST_ACCOUNTS = 10_000_000
const MOST_READS = 1_000_000
const MOST_CHALLENGES = 1_000_000
/** Of Linux with 64 bits. */
const MOST_PROCESS_ID = 4_194_304
const MILLISECONDS = { min: 0, max: 3_600_000 }

const FALLBACKS: ReadonlyMap<string, unknown> = new Map(FLAGS.map(([name, , fallback]) => [name, fallback]))

/** @throws OptionsError naming everything that is wrong. */
export function parseOptions(given: Raw): Options {
  const raw = withDefaults(FLAGS, given)
  const read = new Reader(raw)
  const clients = read.integer('clients', { min: 1, max: MOST_CLIENTS })
  const processes = read.integer('processes', { min: 1, max: MOST_PROCESSES })
  const directoryUrl = read.url('directory')
  const timeoutMs = 1000 * read.number('timeout', SECONDS_AT_LEAST)
  const options: Options = {
    directoryUrl,
    scenarios: readScenarios(read),
    clients,
    processes,
    accounts: read.optionalInteger('accounts', { min: 1, max: MOST_ACCOUNTS }) ?? clients,
    durationMs: 1000 * read.number('duration', SECONDS_AT_LEAST),
    count: read.optionalInteger('count', COUNT),
    warmupMs: 1000 * read.number('warmup', SECONDS),
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
      intervalMs: read.number('poll-interval', MILLISECONDS),
      maxIntervalMs: read.number('poll-max', MILLISECONDS),
      obeyRetryAfter: read.flag('obey-retry-after'),
      timeoutMs,
    },
    signing: readSigning(read, directoryUrl),
    pids: readPids(read),
    accountsFile: read.output('accounts-file'),
    renewalReads: read.integer('renewal-reads', { min: 0, max: MOST_READS }),
    crlReads: read.optionalInteger('crl-reads', { min: 0, max: MOST_READS }),
    storm: read.integer('storm', { min: 1, max: MOST_CHALLENGES }),
    skipsUnsupported: read.text('scenario') === 'all',
    open: readOpen(read, raw, clients),
    servers: readServers(read, raw, (flag) => FALLBACKS.get(flag)),
    dataDir: undefined,
    jsonFile: read.output('json'),
    htmlFile: read.output('html'),
  }
  if (processes > clients) read.errors.push(`--processes ${processes}: more than --clients ${clients}`)
  if (options.accounts < processes)
    read.errors.push(`--accounts ${options.accounts}: fewer than --processes ${processes}`)
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return options
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
  if (text === 'all')
    return Object.keys(SCENARIOS)
      .filter(isScenarioName)
      .filter((name) => !ONLY_BY_NAME.includes(name))
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
  return givenPids({
    service: read.optionalInteger('server-pid', { min: 0, max: MOST_PROCESS_ID }),
    signer: read.optionalInteger('signer-pid', { min: 1, max: MOST_PROCESS_ID }),
    postgres: read.optionalInteger('postgres-pid', { min: 1, max: MOST_PROCESS_ID }),
  })
}
