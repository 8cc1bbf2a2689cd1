/** The command line of the bench: every option with its check, its default and its sentence for `--help`. */

import {
  isGiven,
  type Options as OptionTable,
  option,
  optional,
  type Raw,
  readOptions,
  UsageError,
  type Values,
} from '../src/shared/command-line.ts'
import type { Target } from './client/http.ts'
import * as flags from './flags.ts'
import { findListener } from './measure/server-cpu.ts'
import type { ResponderPlaces } from './responder/responders.ts'
import { ANSWERED_TYPES } from './scenario/issue.ts'
import { SCENARIO_NAMES, type ScenarioName } from './scenario/table.ts'

const { contentOf, integer, matching, number, output, someOf, text, url } = flags

/** A share of the rate that the closed loop just before has reached, or operations per second. */
export type Rate = { ofMaximum: number } | { perSecond: number }

/** How one server is loaded. */
export interface Options extends Target {
  clients: number
  processes: number
  accounts: number
  durationMs: number
  /** Operations to measure, instead of a duration. */
  count: number | undefined
  /** Undefined warms up until the server is steady. */
  warmupMs: number | undefined
  responders: ResponderPlaces
  /** The CPU of these processes is measured, with everything below them. */
  pids: number[]
  /** Rates of the open loop; an empty list runs the closed loop alone. */
  rates: Rate[]
  connections: number
  /** Processors of servers that the bench starts, as taskset(1) takes them. */
  serverCpus: string | undefined
  /** Front threads of services that the bench starts. */
  workers: number | undefined
}

/** Which servers are loaded, with what, and how often. */
export interface Plan {
  options: Options
  /** Measure the table (`table.ts`), which has scenarios of its own. */
  isTable: boolean
  scenarios: ScenarioName[]
  /** Start this tree instead of taking `--directory`; a comparison does so too. */
  start: boolean
  /** Commit to build and load as well. */
  compare: string | undefined
  beside: Beside[]
  /** Directories of servers that run. */
  against: string[]
  repeat: number
  jsonFile: string | undefined
  figuresFile: string | undefined
  htmlFile: string | undefined
}

export const TABLE = 'table'
export const DEFAULT_SCENARIO: ScenarioName = 'full-flow'
const DEFAULT_CLIENTS = 16
/** Beyond these, a service on one core has no higher rate. */
const CLIENTS_OF_TABLE = 64
const WARMUP_OF_TABLE_SECONDS = 25

const BESIDE_NAMES = ['pebble', 'caddy'] as const
export interface Beside {
  name: (typeof BESIDE_NAMES)[number]
  clients: number | undefined
}

const PORT = integer(0, 65535)
const COUNT = integer(1, 1_000_000_000)
const contact = matching(/^mailto:[^@\s]+@[^@\s]+$/, 'must look like mailto:ops@example.com')
/** Timers end at 24 days; a week is more than anybody measures. */
const SECONDS = number(0.001, 604_800)

export const FLAGS = {
  directory: option('URL of the ACME directory', url, 'https://localhost:8443/directory'),
  scenario: optional(
    `What to do, in turn if several, or "all": ${SCENARIO_NAMES.join(',')}; or "${TABLE}": what operations cost, cold and warm ` +
      `(default: ${TABLE} for a tree that the bench starts --beside others, else ${DEFAULT_SCENARIO})`,
    readScenarios,
  ),
  clients: optional(
    'Clients that each begin an operation when their last one ended ' +
      `(default: ${DEFAULT_CLIENTS}, for the table ${CLIENTS_OF_TABLE})`,
    integer(1, 100_000),
  ),
  processes: option('Generator processes the clients are divided among', integer(1, 1024), 1),
  accounts: optional('Accounts used in turn (default: one per client)', integer(1, 500_000)),
  duration: option('Seconds to measure', SECONDS, 10),
  count: optional('Operations to measure, instead of a duration', COUNT),
  warmup: optional(
    'Seconds to run before measuring (default: until rate and CPU per operation are steady, at most 30; ' +
      `for the table ${WARMUP_OF_TABLE_SECONDS})`,
    number(0, 604_800),
  ),
  rate: optional('Open loop: operations per second, such as 500, or 25%,50% of what a closed loop reaches', readRates),
  connections: optional('Open loop: most connections (default: four for each client)', integer(1, 100_000)),
  challenge: option(
    `Challenge that clients choose: ${ANSWERED_TYPES.join(', ')}, or one that needs no answer (accept-all-01 with --start)`,
    matching(/^[a-z0-9-]+$/, 'must be the name of a method such as http-01'),
    'http-01',
  ),
  'renewal-reads': option('Scenario renewal: reads of renewal information before each', integer(0, 1_000_000), 60),
  contact: optional('Contact of each account, such as mailto:ops@example.com', contact),
  'domain-suffix': option(
    'End of the names that are ordered',
    matching(/^(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/, 'must look like .test or .bench.example.com'),
    '.test',
  ),
  'responder-host': option('Address that answers challenges', text, '127.0.0.1'),
  'http01-port': option('Port that answers http-01; 0 answers none', PORT, 5002),
  'dns-port': option('Port of the name server that answers the dns methods; 0 answers none', PORT, 5053),
  'tlsalpn01-port': option('Port that answers tls-alpn-01; 0 answers none', PORT, 5001),
  'ca-cert': optional('PEM file of the roots to trust for TLS', contentOf),
  insecure: isGiven('Accept any TLS certificate'),
  root: optional('PEM file of the root that issued chains must lead to', contentOf),
  timeout: option('Seconds to wait for an answer, and for a validation', SECONDS, 30),
  'server-pid': optional(
    'Process id of the service, and of what is not below it, such as 12,34 (default: who listens there); 0 for none',
    readPids,
  ),
  start: isGiven('Start this tree with a database, a CA and ports of its own, instead of --directory'),
  compare: optional(
    'Commit, branch or tag: build it, and load this tree and it in turn; of a series of steps name the commit before the first',
    matching(/^[^-]/, 'name a commit, branch or tag'),
  ),
  beside: optional(
    `Other servers to start and load in turn: ${BESIDE_NAMES.join(',')}; pebble=8 is 8 clients`,
    readBeside,
  ),
  against: optional('Directories of other servers that run, loaded in turn with the same options', (text) =>
    text.split(',').map(url),
  ),
  repeat: optional('How often each server is loaded (default: 1, of several servers 3)', integer(1, 10_000)),
  workers: optional('Front threads of services that the bench starts', integer(1, 1024)),
  'server-cpus': optional(
    'Processors of servers that the bench starts, such as 0-2 (needs taskset)',
    matching(/^\d+(-\d+)?(,\d+(-\d+)?)*$/, 'must look like 0-2 or 0,2'),
  ),
  json: optional('File to write the results to', output),
  figures: optional('File to write the table to, without what was measured for it', output),
  html: optional('File to write a report with plots to', output),
} satisfies OptionTable

/** Services that the bench starts set these themselves. */
const NOT_WHEN_STARTED = [
  'directory',
  'ca-cert',
  'insecure',
  'root',
  'responder-host',
  'http01-port',
  'dns-port',
  'tlsalpn01-port',
  'server-pid',
] as const
const NOT_FOR_TABLE = ['against', 'rate', 'count', 'challenge'] as const
const CONNECTIONS_PER_CLIENT = 4
const REPEAT_OF_SEVERAL = 3

type Given = Values<typeof FLAGS> & { clients: number }

/** @throws UsageError */
export function parseOptions(raw: Raw): Plan {
  const values = readOptions(FLAGS, raw)
  const { processes, compare, beside = [], against = [], rate = [] } = values
  const start = values.start || compare !== undefined
  const several = compare !== undefined || beside.length + against.length > 0
  const scenario = values.scenario ?? (start && beside.length > 0 ? TABLE : [DEFAULT_SCENARIO])
  const isTable = scenario === TABLE
  const { clients = isTable ? CLIENTS_OF_TABLE : DEFAULT_CLIENTS } = values
  const { warmup = isTable ? WARMUP_OF_TABLE_SECONDS : undefined } = values
  const plan: Plan = {
    options: optionsOf({ ...values, clients, warmup }, rate, start),
    isTable,
    scenarios: isTable ? [] : scenario,
    start,
    compare,
    beside,
    against,
    repeat: values.repeat ?? (several || isTable ? REPEAT_OF_SEVERAL : 1),
    jsonFile: values.json,
    figuresFile: values.figures,
    htmlFile: values.html,
  }
  const { accounts, workers, serverCpus } = plan.options
  const errors = [
    ...(processes > clients ? [`--processes ${processes}: more than --clients ${clients}`] : []),
    ...(accounts < processes ? [`--accounts ${accounts}: fewer than --processes ${processes}`] : []),
    ...(!start && (workers !== undefined || (serverCpus !== undefined && beside.length === 0))
      ? ['--workers and --server-cpus are for servers that the bench starts']
      : []),
    ...(start ? NOT_WHEN_STARTED.filter((name) => isOther(raw[name], FLAGS[name])) : []).map(
      (name) => `--${name}: --compare and --start start services themselves and know it`,
    ),
    ...(isTable && !start ? [`--scenario ${TABLE}: add --start, because each server is started for its turn`] : []),
    ...(isTable ? NOT_FOR_TABLE.filter((name) => isOther(raw[name], FLAGS[name])) : []).map(
      (name) => `--${name}: the table decides it; name a --scenario`,
    ),
    ...(!isTable && values.figures !== undefined ? [`--figures: only --scenario ${TABLE} has them`] : []),
  ]
  if (errors.length > 0) throw new UsageError(errors.join('\n'))
  return plan
}

function isOther(given: unknown, { fallback }: { fallback?: unknown }): boolean {
  return given !== undefined && given !== false && given !== fallback
}

function optionsOf(values: Given, rates: Rate[], isStarted: boolean): Options {
  const { directory, clients, processes, count, workers, connections, insecure, warmup } = values
  return {
    directoryUrl: directory,
    caCertificates: values['ca-cert'],
    insecure,
    rootCertificate: values.root,
    timeoutMs: 1000 * values.timeout,
    challengeType: values.challenge,
    domainSuffix: values['domain-suffix'],
    renewalReads: values['renewal-reads'],
    contact: values.contact,
    clients,
    processes,
    accounts: values.accounts ?? clients,
    count,
    workers,
    rates,
    durationMs: 1000 * values.duration,
    warmupMs: warmup === undefined ? undefined : 1000 * warmup,
    responders: {
      host: values['responder-host'],
      http01Port: values['http01-port'],
      dnsPort: values['dns-port'],
      tlsAlpn01Port: values['tlsalpn01-port'],
    },
    pids: values['server-pid'] ?? (isStarted ? [] : listenersOf(directory)),
    connections: connections ?? CONNECTIONS_PER_CLIENT * clients,
    serverCpus: values['server-cpus'],
  }
}

/** Process ids of the listener on the port of a directory on this machine. */
export function listenersOf(directoryUrl: string): number[] {
  const { hostname, port, protocol } = new URL(directoryUrl)
  const isHere = /^((.+\.)?localhost|\[::1\]|127(\.\d+){3})$/.test(hostname)
  return isHere ? [findListener(Number(port) || (protocol === 'https:' ? 443 : 80)) ?? []].flat() : []
}

function readScenarios(text: string): ScenarioName[] | typeof TABLE {
  return text === TABLE ? TABLE : text === 'all' ? SCENARIO_NAMES : someOf(SCENARIO_NAMES)(text)
}

function readPids(text: string): number[] {
  return text
    .split(',')
    .map(integer(0, 4_194_304))
    .filter((pid) => pid > 0)
}

function readRates(text: string): Rate[] {
  return text.split(',').map((part): Rate => {
    const [, digits, percent] = /^ *(\d+(?:\.\d+)?)(%?) *$/.exec(part) ?? []
    const value = Number(digits)
    if (!(value > 0 && value <= 1_000_000)) throw new Error('must be operations per second or percentages, above 0')
    return percent ? { ofMaximum: value / 100 } : { perSecond: value }
  })
}

function readBeside(text: string): Beside[] {
  return text.split(',').map((part) => {
    const [name = '', clients] = part.trim().split('=')
    return { name: someOf(BESIDE_NAMES)(name)[0]!, clients: clients === undefined ? undefined : COUNT(clients) }
  })
}
