/** Clocks of processes that can be set wrong: libfaketime reads from a file by how much. */

import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const LIBRARY = findLibrary()
/** Whether clocks can be set wrong here (Debian: faketime). */
export const hasClockLibrary = LIBRARY !== undefined

function findLibrary(): string | undefined {
  const folders = ['/usr/lib', '/usr/lib64'].filter((folder) => existsSync(folder))
  return folders
    .flatMap((folder) => [folder, ...readdirSync(folder).map((name) => path.join(folder, name))])
    .map((folder) => path.join(folder, 'faketime/libfaketimeMT.so.1'))
    .find((file) => existsSync(file))
}

/** The environment of a process whose wall clock follows the file; empty without libfaketime. The monotonic clock stays true. */
export function clockEnvironment(file: string): Record<string, string> {
  if (LIBRARY === undefined) return {}
  setClock(file, 0)
  return {
    LD_PRELOAD: LIBRARY,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    FAKETIME_DONT_RESET: '1',
  }
}

/** @param seconds by which the clock is ahead */
export function setClock(file: string, seconds: number): void {
  writeFileSync(file, `${seconds < 0 ? '' : '+'}${seconds}\n`, { mode: 0o644 })
}
