/** Finds the process that listens on a TCP port of this machine (proc(5): net/tcp, fd). */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** @returns undefined when no process listens there, or one of another user */
export function findListener(port: number): number | undefined {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => orElse('', () => readFileSync(file, 'latin1')))
  const sockets = new Set(tables.flatMap((table) => listeningInodes(table, port)).map((inode) => `socket:[${inode}]`))
  const holds = (pid: string) =>
    orElse([], () => readdirSync(`/proc/${pid}/fd`)).some((fd) =>
      sockets.has(orElse('', () => readlinkSync(`/proc/${pid}/fd/${fd}`))),
    )
  if (sockets.size === 0) return undefined
  const holders = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && holds(name))
  // A child that inherited the socket comes after the parent that opened it.
  return holders.length === 0 ? undefined : Math.min(...holders.map(Number))
}

/** Inodes of sockets in state LISTEN (0A) on a port, from the text of /proc/net/tcp or tcp6. */
export function listeningInodes(table: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return table.split('\n').flatMap((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/)
    return state === '0A' && local?.endsWith(suffix) && inode ? [inode] : []
  })
}

/** A process may end meanwhile or belong to another user: both count as not found. */
function orElse<T>(nothing: T, look: () => T): T {
  try {
    return look()
  } catch {
    return nothing
  }
}
