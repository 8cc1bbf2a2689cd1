/** The process of the service on this host, found by its command line in /proc. */

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import path from 'node:path'
import { startOf } from '../../shared/lib/processes.ts'

export interface ServiceProcess {
  pid: number
  uid: number
  startedAt: Date
  /** Undefined where another user may not read it. */
  openFilesLimit: number | undefined
}

/** @param configFile absolute */
export function findService(configFile: string): ServiceProcess | undefined {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const pid = pids.find((one) => isService(one, configFile))
  if (pid === undefined) return undefined
  // The folder of a process is made when it starts.
  const { uid } = statSync(`/proc/${pid}`)
  return { pid: Number(pid), uid, startedAt: startOf(Number(pid)), openFilesLimit: openFilesLimit(pid) }
}

function isService(pid: string, configFile: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    const program = words.findIndex((word) => /(?:cli\/main\.js|\/chancery)$/.test(word))
    const commands = words.slice(program + 1).filter((word) => /^[a-z]+$/.test(word))
    const at = words.findIndex((word) => word === '-c' || word === '--config')
    const isServe = program >= 0 && at >= 0 && commands.every((word) => word === 'serve')
    return isServe && path.resolve(folderOf(pid), words[at + 1] ?? '') === configFile
  } catch {
    return false // it has ended, or belongs to somebody else
  }
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return '/'
  }
}

function openFilesLimit(pid: string): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/limits`, 'utf8')
    const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(text)?.[1]
    return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard)
  } catch {
    return undefined
  }
}
