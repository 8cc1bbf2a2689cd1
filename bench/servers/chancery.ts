/** One build as a running service: embedded development mode, with a database, a CA and ports of its own. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Options, Plan } from '../options.ts'
import { asksDns } from '../responder/responders.ts'
import { type Build, OWN_ROOT } from './build.ts'
import { freePort, outputOf, startChild } from './child.ts'

/** The description of a server in results. */
export interface Subject {
  name: string
  /** Commit of a build of this project. */
  commit: string | undefined
  /** A note that a reader of its figures needs, or the subject of a build's commit; may be empty. */
  note: string
}

export interface Contestant {
  subject: Subject
  /** Options of the run, for this server. */
  options: Options
  /** Cannot take a challenge for met. */
  alwaysValidates?: boolean
  /** Starts it anew after it broke; absent when it is not ours to start. @throws Error */
  restart?(): Promise<void>
  /** Why it could not be started anew. */
  down?: Error | undefined
  stop(): Promise<void>
}

/** One that the bench starts, and starts again. @throws Error when it does not start */
export async function startContestant(
  subject: Subject,
  start: () => Promise<{ options: Options; stop(): Promise<void> }>,
): Promise<Contestant> {
  let running = await start()
  const contestant: Contestant = {
    subject,
    options: running.options,
    async restart() {
      await running.stop()
      running = await start()
      contestant.options = running.options
    },
    stop: () => running.stop(),
  }
  return contestant
}

/** The challenge that the module beside it meets, as cheaply as can be. */
export const ACCEPT_ALL = 'accept-all-01'
const ACCEPT_ALL_MODULE = path.join(OWN_ROOT, 'bench/accept-all.mjs')
const LOOPBACK = '127.0.0.1'

/**
 * It has a CRL where a scenario reads one.
 * @param environment Added to the own one. @throws Error with what the service said, when it did not start
 */
export async function startBuild(
  build: Build,
  dataDir: string,
  plan: Plan,
  signal: AbortSignal,
  environment: Readonly<Record<string, string>> = {},
): Promise<Contestant> {
  const { options, scenarios } = plan
  const hasCrl = scenarios.includes('crl') || scenarios.includes('renewal')
  const subject = { name: build.name, commit: build.commit, note: build.subject }
  return await startContestant(subject, () => startService(build, dataDir, options, hasCrl, environment, signal))
}

interface Package {
  bin: { chancery: string }
  config?: { nodeFlags: string }
}

/** Node's flags and the compiled program of a build, which an older build may keep elsewhere. */
function programOf(root: string): { cli: string; nodeFlags: string[] } {
  const { bin, config } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as Package
  return { cli: path.join(root, bin.chancery), nodeFlags: config ? [config.nodeFlags] : [] }
}

async function startService(
  { root, name }: Build,
  dataDir: string,
  options: Options,
  hasCrl: boolean,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
) {
  const { challengeType, workers, serverCpus } = options
  const { cli, nodeFlags } = programOf(root)
  const known = flagsIn(await outputOf(process.execPath, [cli, 'serve', '--help'], root, signal))
  const port = await freePort()
  const responders = {
    host: LOOPBACK,
    http01Port: await freePort(),
    dnsPort: asksDns(challengeType) ? await freePort() : 0,
    tlsAlpn01Port: known.has('tlsalpn01-port') ? await freePort() : 0,
  }
  // An older build offers dns-persist-01 by itself.
  const hasSwitch = responders.dnsPort !== 0 && known.has('dns-persist')
  const flags = {
    'dns-persist': hasSwitch || undefined,
    'data-dir': dataDir,
    port,
    'http01-port': responders.http01Port,
    'dns01-port': responders.dnsPort || undefined,
    'tlsalpn01-port': responders.tlsAlpn01Port || undefined,
    workers,
    validator: challengeType === ACCEPT_ALL ? ACCEPT_ALL_MODULE : undefined,
    crl: hasCrl || undefined,
    'crl-port': hasCrl && known.has('crl-port') ? await freePort() : undefined,
  }
  const command = [process.execPath, ...nodeFlags, cli, '--dev', ...serverFlags(flags, known, name)]
  const directoryUrl = `https://localhost:${port}/directory`
  const { pid, stop } = await startChild(
    { name, command, cwd: root, environment, cpus: serverCpus, answersAt: directoryUrl },
    signal,
  )
  const ca = readFileSync(path.join(dataDir, 'ca/root.pem'), 'utf8')
  const found = { directoryUrl, responders, caCertificates: ca, rootCertificate: ca, pids: [pid] }
  return { stop, options: { ...options, ...found } }
}

/** Flags that a command's `--help` names. */
export function flagsIn(help: string): Set<string> {
  return new Set([...help.matchAll(/(?<=^|[\s,])--([a-z][a-z0-9-]*)/gm)].map(([, flag]) => flag as string))
}

/** Words for those that are defined; true is a flag without a value. @throws Error when the build does not know one */
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
