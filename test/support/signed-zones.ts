/**
 * A DNSSEC tree on loopback: a signed top zone whose key is the trust anchor, below it zones that are signed, unsigned and
 * broken. Knot DNS serves them, and Unbound is the validating resolver.
 *
 * Everything runs in the foreground, on ports and in a folder of its own.
 */

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import dnsPacket from 'dns-packet'
import { type Daemon, startDaemon, waitFor } from './daemon.ts'
import { freePort } from './free-port.ts'
import { WAIT_MS } from './patience.ts'
import { mustRun } from './run-command.ts'
import { words } from './words.ts'

export interface SignedZone {
  /** Below the top zone. */
  zone: string
  /** `broken`: signed, and the TXT records changed afterwards. */
  kind: 'signed' | 'unsigned' | 'broken'
  /** Owner → values. */
  txt: Record<string, readonly string[]>
}

export interface SignedZones {
  /** Unbound, which validates. */
  resolver: string
  /** Knot, which serves the zones and validates nothing. */
  server: string
  stop(): Promise<void>
}

export const TOP_ZONE = 'lab'
/** It is as long as a digest, so that a signature can be made over it and the value replaced. */
const BEFORE_BREAKING = 'x'.repeat(43)

/** @param ports.resolver of Unbound; the caller had to name it before the zones were known */
export async function startSignedZones(
  folder: string,
  zones: readonly SignedZone[],
  ports: { resolver: number },
): Promise<SignedZones> {
  const port = await freePort()
  for (const zone of zones) {
    const texts = Object.entries(zone.txt).flatMap(([owner, values]) => values.map((value) => [owner, value] as const))
    const lines = texts.map(
      ([owner, value]) => `${owner}. 60 IN TXT "${zone.kind === 'broken' ? BEFORE_BREAKING : value}"`,
    )
    const file = await writeZone(folder, zone.zone, lines, zone.kind !== 'unsigned')
    if (zone.kind === 'broken') replaceValue(file, texts[0]?.[1] ?? '')
  }
  const delegations = zones.flatMap(({ zone, kind }) => [
    `${zone}. 60 IN NS ns.${TOP_ZONE}.`,
    ...(kind === 'unsigned' ? [] : [readFileSync(path.join(folder, `dsset-${zone}.`), 'utf8').trim()]),
  ])
  await writeZone(folder, TOP_ZONE, delegations, true)

  const names = [TOP_ZONE, ...zones.map(({ zone }) => zone)]
  const knot = startKnot(folder, port, names)
  const unbound = startUnbound(folder, ports.resolver, port, names)
  const stop = async () => {
    await Promise.all([knot.stop(), unbound.stop()])
  }
  try {
    await waitFor('Knot answers', knot, () => answers(port))
    await waitFor('Unbound answers', unbound, () => answers(ports.resolver))
  } catch (error) {
    await stop()
    throw error
  }
  return { resolver: `127.0.0.1:${ports.resolver}`, server: `127.0.0.1:${port}`, stop }
}

/** @returns the file that is served. */
async function writeZone(folder: string, zone: string, records: readonly string[], signed: boolean): Promise<string> {
  const file = path.join(folder, `${zone}.zone`)
  const head = [
    `${zone}. 60 IN SOA ns.${TOP_ZONE}. admin.${TOP_ZONE}. 1 3600 600 86400 1`,
    `${zone}. 60 IN NS ns.${TOP_ZONE}.`,
  ]
  const address = zone === TOP_ZONE ? [`ns.${TOP_ZONE}. 60 IN A 127.0.0.1`] : []
  writeFileSync(file, `${[...head, ...address, ...records].join('\n')}\n`)
  if (!signed) return file

  // One key for everything in the zone (-z), found in the folder (-S), without an NSEC3 chain.
  await mustRun('dnssec-keygen', ['-q', '-K', folder, '-a', 'ECDSAP256SHA256', '-f', 'KSK', zone])
  const signedFile = `${file}.signed`
  await mustRun('dnssec-signzone', words`-q -S -z -K ${folder} -d ${folder} -o ${zone} -f ${signedFile} ${file}`)
  return signedFile
}

/** The record becomes the wanted one; its signature does not. */
function replaceValue(file: string, value: string): void {
  const text = readFileSync(file, 'utf8')
  if (!text.includes(BEFORE_BREAKING)) throw new Error(`nothing to break in ${file}`)
  writeFileSync(file, text.replaceAll(BEFORE_BREAKING, value))
}

function startKnot(folder: string, port: number, zones: readonly string[]): Daemon {
  const config = path.join(folder, 'knot.conf')
  const own = path.join(folder, 'knot')
  mkdirSync(own)
  const files = new Set(readdirSync(folder))
  const fileOf = (zone: string) => (files.has(`${zone}.zone.signed`) ? `${zone}.zone.signed` : `${zone}.zone`)
  const lines = [
    'server:',
    `  rundir: "${own}"`,
    `  listen: 127.0.0.1@${port}`,
    'database:',
    `  storage: "${own}"`,
    'log:',
    '  - target: stderr',
    '    any: info',
    'template:',
    '  - id: default',
    `    storage: "${folder}"`,
    '    zonefile-sync: -1',
    '    journal-content: none',
    'zone:',
    ...zones.flatMap((zone) => [`  - domain: ${zone}`, `    file: "${fileOf(zone)}"`]),
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  return startDaemon('knotd', ['-c', config], { logFile: path.join(folder, 'knot.log') })
}

function startUnbound(folder: string, port: number, serverPort: number, zones: readonly string[]): Daemon {
  const config = path.join(folder, 'unbound.conf')
  const anchor = path.join(folder, 'anchor')
  writeFileSync(anchor, readFileSync(path.join(folder, `dsset-${TOP_ZONE}.`), 'utf8'))
  const lines = [
    'server:',
    '  interface: 127.0.0.1',
    `  port: ${port}`,
    '  do-ip6: no',
    '  do-daemonize: no',
    '  use-syslog: no',
    '  chroot: ""',
    '  username: ""',
    `  directory: "${folder}"`,
    '  pidfile: ""',
    '  do-not-query-localhost: no',
    '  module-config: "validator iterator"',
    `  trust-anchor-file: "${anchor}"`,
    '  verbosity: 1',
    '  val-log-level: 2',
    'remote-control:',
    '  control-enable: no',
    // Knot is not at port 53, which delegations stand for; everything else is nobody's.
    ...zones.flatMap((zone) => ['stub-zone:', `  name: "${zone}"`, `  stub-addr: 127.0.0.1@${serverPort}`]),
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  return startDaemon('unbound', ['-d', '-c', config], { logFile: path.join(folder, 'unbound.log') })
}

/** True when the top zone's SOA comes back; undefined after a moment of silence. */
async function answers(port: number): Promise<true | undefined> {
  const socket = createSocket('udp4')
  socket.on('error', () => {})
  const question = dnsPacket.encode({
    type: 'query',
    id: 1,
    flags: dnsPacket.RECURSION_DESIRED,
    questions: [{ type: 'SOA', name: TOP_ZONE, class: 'IN' }],
  })
  socket.send(question, port, '127.0.0.1')
  try {
    const [message] = (await once(socket, 'message', { signal: AbortSignal.timeout(WAIT_MS / 200) })) as [Buffer]
    return (dnsPacket.decode(message).answers ?? []).length > 0 ? true : undefined
  } catch {
    // Not listening yet; the caller asks again.
    return undefined
  } finally {
    socket.close()
  }
}
