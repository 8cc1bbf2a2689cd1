/** Other ACME servers that the bench starts by name, so that they are measured beside this one in the same minutes. */

import { mkdirSync } from 'node:fs'
import type { Options } from '../options/options.ts'
import type { BesideName, BesideOptions } from '../options/servers.ts'
import { ACCEPT_ALL } from './accept-all.ts'
import { launchCaddy } from './caddy.ts'
import type { Contestant } from './contestant.ts'
import type { Launch, Launched } from './launch.ts'
import { launchPebble } from './pebble.ts'
import { outputOf } from './program.ts'

interface Other {
  title: string
  versionArguments: readonly string[]
  /** Undefined loads it with as many as the first server. */
  clients: number | undefined
  note(acceptsAll: boolean): string
  launch(launch: Launch, signal: AbortSignal): Promise<Launched>
}

const OTHERS: Record<BesideName, Other> = {
  pebble: {
    title: 'Pebble',
    versionArguments: [],
    // Version 2.4 locks up under more.
    clients: 4,
    note: (acceptsAll) => `keeps everything in memory${acceptsAll ? '; takes every challenge for met' : ''}`,
    launch: launchPebble,
  },
  caddy: {
    title: 'Caddy',
    versionArguments: ['version'],
    clients: undefined,
    note: (acceptsAll) => `acme_server, stores in bbolt${acceptsAll ? '; validates http-01 all the same' : ''}`,
    launch: launchCaddy,
  },
}

/** @throws Error with what it said when it is not installed or does not start. */
export async function startBeside(
  { name, clients: wanted }: BesideOptions,
  folder: string,
  options: Options,
  signal: AbortSignal,
): Promise<Contestant> {
  const other = OTHERS[name]
  const acceptsAll = options.challengeType === ACCEPT_ALL
  // Other servers know no such type; http-01 is what they take for met.
  const challengeType = acceptsAll ? 'http-01' : options.challengeType
  const launch = { folder, cpus: options.servers.serverCpus, acceptsAll, challengeType }
  mkdirSync(folder)
  const version = await versionOf(name, other.versionArguments, folder, signal)
  let running = await other.launch(launch, signal)
  const clients = wanted ?? Math.min(other.clients ?? options.clients, options.clients)
  const contestant: Contestant = {
    subject: {
      name: `${other.title}${version === '' ? '' : ` ${version}`}`,
      commit: undefined,
      note: `${clients} clients; ${other.note(acceptsAll)}`,
      isOurs: false,
    },
    options: optionsFor({ ...options, challengeType }, running, clients),
    async restart() {
      await running.stop()
      running = await other.launch(launch, signal)
      contestant.options = optionsFor({ ...options, challengeType }, running, clients)
    },
    stop: () => running.stop(),
  }
  return contestant
}

/** Empty for a program that does not tell. @throws Error when it is not installed. */
async function versionOf(name: string, words: readonly string[], folder: string, signal: AbortSignal): Promise<string> {
  const isInstalled = await outputOf('sh', ['-c', 'command -v "$1"', 'sh', name], folder, signal).catch(() => '')
  if (isInstalled === '')
    throw new Error(`--beside ${name}: there is no program ${name} here (Debian: apt install ${name})`)
  if (words.length > 0) return (await outputOf(name, words, folder, signal)).split(' ')[0] ?? ''
  // Not every program knows its own version; the package does where there is one.
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the notation of dpkg-query
  const format = '--showformat=${Version}'
  return await outputOf('dpkg-query', ['--show', format, name], folder, signal).catch(() => '')
}

function optionsFor(options: Options, running: Launched, clients: number): Options {
  const { directoryUrl, responders, caCertificates, rootCertificate, pid } = running
  return {
    ...options,
    ...{ directoryUrl, responders, caCertificates, rootCertificate, clients },
    insecure: caCertificates === undefined,
    processes: Math.min(options.processes, clients),
    pids: { service: pid },
  }
}
