/**
 * PostgreSQL's `peer` authentication asks the system which user connects (docs/decisions/root-and-peer.md). Root is not
 * that user, so root's commands connect through a process of the service's user.
 */

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config/schema.ts'
import { isSocketFolder } from '../shared/lib/host.ts'
import { programFile } from '../shared/lib/program-files.ts'
import { connectElsewhere } from '../store/pg.ts'

const PROGRAM = fileURLToPath(programFile('src/cli/peer-relay-process.ts'))

/** Does nothing where a password says who connects, or where the system has no user of the role's name. */
export async function connectAsServiceUser({ database }: Config): Promise<void> {
  const { host: hosts, port, user, password } = database
  const sockets = hosts.filter(isSocketFolder).map((folder) => `${folder}/.s.PGSQL.${port}`)
  if (process.getuid?.() !== 0 || password !== null || sockets.length === 0) return
  const words = ['-u', user, '--', process.execPath, PROGRAM, ...sockets]
  // That user can read the variables of its processes, and the variables of root may have secrets.
  const { PATH = '/usr/sbin:/usr/bin:/sbin:/bin' } = process.env
  const relay = spawn('runuser', words, { cwd: '/', env: { PATH }, stdio: ['pipe', 'pipe', 'ignore'] })
  relay.on('error', () => undefined)
  const lines = createInterface(relay.stdout)
  const places: string[] = []
  for await (const line of lines) if (places.push(line) === sockets.length) break
  // The relay ends when its standard input does, with this process at the latest.
  for (const one of [relay, relay.stdin, relay.stdout] as { unref?(): void }[]) one.unref?.()
  for (const [index, place] of places.entries()) connectElsewhere(sockets[index]!, place)
}
