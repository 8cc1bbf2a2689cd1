/** Finds the process that listens on a TCP port of this machine (proc(5): net/tcp, fd). */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** @returns undefined when nobody listens there or the process belongs to another user. */
export function findListener(port: number): number | undefined {
  const inodes = new Set(
    ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => listeningInodes(readOrEmpty(file), port)),
  )
  if (inodes.size === 0) return undefined
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const holders = pids.filter((pid) => holdsSocket(pid, inodes)).map(Number)
  // A child that inherited the socket comes after the parent that opened it.
  return holders.length === 0 ? undefined : Math.min(...holders)
}

/** Inodes of sockets in state LISTEN (0A) on a port, from the text of /proc/net/tcp or tcp6. */
export function listeningInodes(table: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return table.split('\n').flatMap((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/)
    return state === '0A' && local?.endsWith(suffix) && inode ? [inode] : []
  })
}

function holdsSocket(pid: string, inodes: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOrEmpty(`/proc/${pid}/fd/${fd}`))?.[1]
      return inode !== undefined && inodes.has(inode)
    })
  } catch {
    // Ended meanwhile, or not ours to look into.
    return false
  }
}

function linkOrEmpty(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    // The descriptor was closed between listing and reading.
    return ''
  }
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    // No /proc (not Linux) or no IPv6: nothing listens as far as we can tell.
    return ''
  }
}
