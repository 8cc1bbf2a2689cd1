/**
 * Services beside one in development mode, which has made a CA and runs PostgreSQL: they take both from it, and are for the rest as
 * separate as instances on machines of their own, each with its signer, its ports and its TLS certificate.
 */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { readDocument } from '../../src/shared/config-file/document.ts'
import { openDatabase } from '../../src/store/database.ts'
import { familyOf, readProcesses } from '../measure/proc-stat.ts'
import { roleOfCommand } from '../measure/server-cpu.ts'
import type { ResponderPlaces } from '../responder/responders.ts'
import { OWN_ROOT } from './build.ts'
import { freePlaces, type Server } from './chancery.ts'
import { startChild } from './child.ts'
import { embeddedDatabase } from './embedded-database.ts'
import { freePort } from './free-port.ts'

export interface InstanceSettings {
  /** Unique among the instances of a host; for people and for its folder. */
  name: string
  /** Of the host's PostgreSQL; there already. */
  database: string
  fronts: number
  /** Where nonces and the counters of limits are kept. */
  keptIn: 'memory' | 'database'
  /** As taskset(1) takes them; undefined binds it to no processor. */
  cpus: string | undefined
}

type Section = Record<string, unknown>

/** Makes an empty database; a service sets its tables up itself. @param name A plain word. */
export async function createDatabase({ dataDir }: Server, name: string): Promise<void> {
  const db = openDatabase(embeddedDatabase(dataDir), (error) => {
    throw error
  })
  try {
    await db.query({ name: 'create', text: `CREATE DATABASE ${name}` }, [])
  } finally {
    await db.close()
  }
}

/** @throws Error with what the service said, when it did not start. */
export async function startInstance(host: Server, settings: InstanceSettings, signal: AbortSignal): Promise<Server> {
  const dataDir = path.join(host.dataDir, settings.name)
  mkdirSync(dataDir)
  const port = await freePort()
  const { dnsPort, tlsAlpn01Port } = host.responders
  const responders = await freePlaces({ asksDns: dnsPort > 0, asksTls: tlsAlpn01Port > 0 })
  const config = path.join(dataDir, 'chancery.json')
  const text = instanceConfig(hostConfig(host.dataDir), { ...settings, dataDir, port, responders })
  writeFileSync(config, text, { mode: 0o600 })
  const cli = path.join(OWN_ROOT, 'dist/src/cli/main.js')
  const command = [process.execPath, '--enable-source-maps', cli, 'serve', '-c', config]
  const directoryUrl = `https://localhost:${port}/directory`
  const child = { name: settings.name, command, cwd: OWN_ROOT, cpus: settings.cpus, answersAt: directoryUrl }
  const { pid, stop } = await startChild(child, signal)
  return { dataDir, directoryUrl, responders, root: host.root, pid, stop }
}

/** @throws Error when the host runs none. */
export function postgresBelow({ pid }: Server): number {
  const postmaster = familyOf(pid, readProcesses()).find(({ commandLine }) => roleOfCommand(commandLine) === 'postgres')
  if (!postmaster) throw new Error('no PostgreSQL runs below the service that was started for it')
  return postmaster.pid
}

function hostConfig(dataDir: string): string {
  return readFileSync(path.join(dataDir, 'chancery.yaml'), 'utf8')
}

interface Place {
  dataDir: string
  port: number
  responders: ResponderPlaces
}

/**
 * @param text The host's configuration, YAML.
 * @returns JSON; equal to it but for what two services cannot share and what is to be measured.
 */
export function instanceConfig(
  text: string,
  { dataDir, port, responders, database, fronts, keptIn }: InstanceSettings & Place,
): string {
  const config = sectionOf(readDocument(text, 'yaml').value)
  const section = (name: string) => sectionOf(config[name])
  const [server, ca, challenges, dns] = [section('server'), section('ca'), section('challenges'), section('dns')]
  const { http01Port, tlsAlpn01Port, dnsPort } = responders
  const asked = dnsPort === 0 ? [] : [`127.0.0.1:${dnsPort}`]
  const zones = (dns['zones'] as Section[]).map((zone) => (zone['resolvers'] ? { ...zone, resolvers: asked } : zone))
  const inside = (name: string) => path.join(dataDir, name)
  return JSON.stringify({
    ...config,
    server: {
      ...server,
      ...{ external_url: `https://localhost:${port}`, port, workers: fronts },
      tls: { ...sectionOf(server['tls']), cert_path: inside('cert.pem'), key_path: inside('key.pem') },
    },
    database: { ...section('database'), database },
    ca: { ...ca, signer: { ...sectionOf(ca['signer']), audit_file: inside('signer-audit.jsonl') } },
    challenges: {
      ...challenges,
      http01: { ...sectionOf(challenges['http01']), port: http01Port },
      tlsalpn01: { ...sectionOf(challenges['tlsalpn01']), port: tlsAlpn01Port },
    },
    dns: { ...dns, zones },
    nonce: { ...section('nonce'), store: keptIn },
    security: { ...section('security'), rate_limits: { enabled: false, backend: keptIn } },
  })
}

function sectionOf(value: unknown): Section {
  return (value ?? {}) as Section
}
