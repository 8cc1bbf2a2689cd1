/** One build as a running service: embedded development mode, with a database, a CA and ports of its own. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Options } from '../options/options.ts'
import { asksDns, type ResponderPlaces } from '../responder/responders.ts'
import { ACCEPT_ALL, ACCEPT_ALL_MODULE } from './accept-all.ts'
import type { Build } from './build.ts'
import { startChild } from './child.ts'
import { freePort } from './free-port.ts'
import { outputOf } from './program.ts'

export interface Server {
  /** Holds its CA, its database and its configuration. */
  dataDir: string
  directoryUrl: string
  /** Where it looks for answers to challenges. */
  responders: ResponderPlaces
  /** PEM of the root that TLS and issued chains lead to. */
  root: string
  pid: number
  /** Asks it to end, and makes it when it does not; its database ends with it. */
  stop(): Promise<void>
}

export interface ServerSettings {
  dataDir: string
  /** Front threads; undefined leaves it to the build. */
  workers: number | undefined
  /** As taskset(1) takes them; undefined binds the server to no processor. */
  cpus: string | undefined
  /** Module of a validator, when the challenge needs one. */
  validator: string | undefined
  /** Offers the methods of DNS, and asks the bench. */
  asksDns: boolean
  /** Publishes a CRL and names it in certificates, which costs each of them a little. */
  hasCrl: boolean
  /** Beside the bench's own. */
  environment?: Readonly<Record<string, string>>
}

/**
 * What a run's challenge and scenarios need beyond the default: `crl` and `renewal` a CRL. "all" gets no CRL: it would make every certificate of its other
 * scenarios dearer, and an older build may have none.
 */
export function featuresFor({ challengeType, scenarios, skipsUnsupported, crlReads }: Options) {
  const readsCrl = scenarios.includes('crl') || (scenarios.includes('renewal') && crlReads !== 0)
  return {
    validator: challengeType === ACCEPT_ALL ? ACCEPT_ALL_MODULE : undefined,
    asksDns: asksDns(challengeType),
    hasCrl: readsCrl && !skipsUnsupported,
  } satisfies Partial<ServerSettings>
}

/** @throws Error with what the service said, when it did not start. */
export async function startServer(build: Build, settings: ServerSettings, signal: AbortSignal): Promise<Server> {
  const cli = path.join(build.root, 'dist/src/cli/main.js')
  const known = flagsIn(await outputOf(process.execPath, [cli, 'serve', '--help'], build.root, signal))
  const port = await freePort()
  const responders = await freePlaces({ asksDns: settings.asksDns, asksTls: known.has('tlsalpn01-port') })
  const words = serverFlags(
    {
      'data-dir': settings.dataDir,
      port,
      'http01-port': responders.http01Port,
      'dns01-port': responders.dnsPort || undefined,
      'tlsalpn01-port': responders.tlsAlpn01Port || undefined,
      workers: settings.workers,
      validator: settings.validator,
      crl: settings.hasCrl || undefined,
    },
    known,
    build.name,
  )
  const command = [process.execPath, '--enable-source-maps', cli, '--dev', ...words]
  const directoryUrl = `https://localhost:${port}/directory`
  const { pid, stop } = await startChild(
    {
      ...{ name: build.name, command, cwd: build.root, cpus: settings.cpus, answersAt: directoryUrl },
      ...(settings.environment && { environment: settings.environment }),
    },
    signal,
  )
  const root = readFileSync(path.join(settings.dataDir, 'ca/root.pem'), 'utf8')
  return { dataDir: settings.dataDir, directoryUrl, responders, root, pid, stop }
}

/** Where a server of ours is to look for answers to challenges. */
export async function freePlaces({
  asksDns,
  asksTls,
}: {
  asksDns: boolean
  asksTls: boolean
}): Promise<ResponderPlaces> {
  return {
    host: '127.0.0.1',
    http01Port: await freePort(),
    dnsPort: asksDns ? await freePort() : 0,
    tlsAlpn01Port: asksTls ? await freePort() : 0,
  }
}

/** Those of the run, for a server that the bench has started. */
export function optionsFor(
  options: Options,
  { dataDir, directoryUrl, responders, root, pid }: Omit<Server, 'stop'>,
): Options {
  return {
    ...options,
    dataDir,
    directoryUrl,
    responders,
    caCertificates: root,
    rootCertificate: root,
    pids: { service: pid },
  }
}

/** Flags that a command's `--help` names. */
export function flagsIn(help: string): Set<string> {
  return new Set([...help.matchAll(/(?<=^|[\s,])--([a-z][a-z0-9-]*)/gm)].map(([, flag]) => flag as string))
}

/** Words for those that are defined; true is a flag without a value. @throws Error when the build does not know one of them. */
export function serverFlags(
  flags: Readonly<Record<string, string | number | true | undefined>>,
  known: ReadonlySet<string>,
  buildName: string,
): string[] {
  return Object.entries(flags).flatMap(([flag, value]) => {
    if (value === undefined) return []
    if (!known.has(flag)) throw new Error(`${buildName} does not know --${flag}, which this comparison needs`)
    return value === true ? [`--${flag}`] : [`--${flag}`, String(value)]
  })
}
