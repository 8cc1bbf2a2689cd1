/**
 * Folders beside an audit chain, one for each process that has a signer on it: socket, secret and
 * configuration of that signer. A second writer would stop the chain.
 *
 * A process first makes its folder and then looks for others, so of two at least one sees the other.
 * The folder's name has the start of its process as well, since process ids are given again. Its process holds a lock on
 * it, since one in another container is not seen.
 */

import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MAX_SOCKET_PATH_BYTES } from '../../signer/protocol/frames.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { isLocked, tryLock } from '../shared/lib/files.ts'
import { identifyProcess, type ProcessIdentity } from '../shared/lib/processes.ts'

export interface SignerPlace {
  socketPath: string
  secretFile: string
}

interface OwnPlace extends SignerPlace {
  configFile: string
  remove(): void
}

/** Another process has a signer on the audit chain. */
export class AuditChainInUse extends Error {}

const SOCKET_NAME = 'signer.sock'
const CONFIG_NAME = 'signer.yaml'
/** Stands between the audit file's name and the identity of the process. */
const FOLDER_INFIX = '.signer-'
const LOOK_MS = 100

/**
 * Makes the folder of this process, and removes the folders of dead ones.
 *
 * tmpfiles.d empties temporary folders after ten days; a restarted signer or front thread would then find neither
 * secret nor configuration.
 *
 * @param waitMs how long another process may still have its signer on the chain
 * @throws AuditChainInUse after that, without leaving a folder; Error in a plain sentence
 */
export async function makePlace(auditFile: string, waitMs: number): Promise<OwnPlace> {
  const own = identifyProcess(process.pid) ?? { pid: process.pid, startedAt: '' }
  const folder = `${auditFile}${FOLDER_INFIX}${own.pid}.${own.startedAt}`
  try {
    removeAbandoned(auditFile)
    mkdirSync(folder, { mode: 0o700 })
  } catch (cause) {
    const sentence =
      '; the folder of the audit chain (ca.signer.audit_file) has to be there, and to belong to this user'
    const isFull = ['ENOSPC', 'EDQUOT'].includes((cause as NodeJS.ErrnoException).code ?? '')
    throw new Error(`${folder}: ${describeFileError(cause)}${isFull ? '' : sentence}`, { cause })
  }
  const fd = openSync(folder, 'r')
  tryLock(fd)
  try {
    await untilAlone(auditFile, waitMs)
  } catch (error) {
    closeSync(fd)
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
  return placeIn(folder)
}

function placeIn(folder: string): OwnPlace {
  const isShort = Buffer.byteLength(path.join(folder, SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES
  // tmpfiles.d spares listening sockets, so a long path may move the socket to a temporary folder.
  const socketFolder = isShort ? folder : mkdtempSync(path.join(tmpdir(), 'chancery-signer-'))
  return {
    socketPath: path.join(socketFolder, SOCKET_NAME),
    secretFile: path.join(folder, 'secret'),
    configFile: path.join(folder, CONFIG_NAME),
    remove() {
      for (const one of new Set([folder, socketFolder])) rmSync(one, { recursive: true, force: true })
    },
  }
}

/**
 * The signer of another process on this audit chain.
 * @returns `starting` while it does not listen yet; undefined when there is none
 * @throws Error in a plain sentence when this user may not use it
 */
export function findRunningSigner(auditFile: string): SignerPlace | 'starting' | undefined {
  const other = othersAlive(auditFile)[0]
  if (!other) return undefined
  try {
    const config = JSON.parse(readFileSync(path.join(other.folder, CONFIG_NAME), 'utf8')) as Record<string, string>
    const place = { socketPath: config['socket'] ?? '', secretFile: config['secret_file'] ?? '' }
    return existsSync(place.socketPath) ? place : 'starting'
  } catch (cause) {
    // Not written yet, or a part of it.
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT' || cause instanceof SyntaxError) return 'starting'
    const said = describeFileError(cause)
    throw new Error(`${other.folder}: a service has its signer there, and it cannot be used: ${said}`, { cause })
  }
}

/** @throws AuditChainInUse */
async function untilAlone(auditFile: string, waitMs: number): Promise<void> {
  const end = performance.now() + waitMs
  for (;;) {
    const other = othersAlive(auditFile)[0]
    if (!other) return
    if (performance.now() >= end)
      throw new AuditChainInUse(
        `${other.folder}: process ${other.pid} has a signer on this audit chain; a second one would stop it`,
      )
    await sleep(LOOK_MS)
  }
}

interface PlaceBeside extends ProcessIdentity {
  folder: string
}

/** Folders beside the audit chain. Release 0.1 put only a process id into their names. */
function placesBeside(auditFile: string): PlaceBeside[] {
  const [parent, prefix] = [path.dirname(auditFile), `${path.basename(auditFile)}${FOLDER_INFIX}`]
  const names = existsSync(parent) ? readdirSync(parent).filter((name) => name.startsWith(prefix)) : []
  return names.flatMap((name) => {
    const [pid, startedAt = ''] = name.slice(prefix.length).split('.')
    return /^[1-9]\d*$/.test(pid ?? '') ? [{ folder: path.join(parent, name), pid: Number(pid), startedAt }] : []
  })
}

const othersAlive = (auditFile: string) => placesBeside(auditFile).filter(isOfAnother)

function isOfAnother({ folder, pid, startedAt }: PlaceBeside): boolean {
  const now = identifyProcess(pid)
  const isSeen = now !== undefined && [now.startedAt, ''].includes(startedAt)
  return isSeen ? pid !== process.pid : isLocked(folder)
}

/** Removes folders of killed services, including one that had this process's id. */
function removeAbandoned(auditFile: string): void {
  for (const place of placesBeside(auditFile))
    if (!isOfAnother(place)) rmSync(place.folder, { recursive: true, force: true })
}
