/**
 * Small disks in memory that can be full. They are mounts of a private namespace (`main.ts`), which end with the process;
 * without root a disk is a plain folder that is never full.
 */

import { execFileSync } from 'node:child_process'
import { mkdirSync, statfsSync } from 'node:fs'
import path from 'node:path'

const ATTEMPTS = 20
const isRoot = process.getuid?.() === 0

export class Disk {
  readonly folder: string
  readonly #bytes: number

  /** Takes memory only for what is on it. */
  constructor(top: string, name: string, megabytes: number) {
    this.folder = path.join(top, name)
    this.#bytes = megabytes * 2 ** 20
    mkdirSync(this.folder, { mode: 0o755 })
    if (isRoot) execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${this.#bytes},mode=755`, 'disk', this.folder])
  }

  /** No byte is left from now on: the disk shrinks to what is on it. @throws Error when what is on it grows all the time */
  fill(): void {
    for (let left = ATTEMPTS; ; left--) {
      const { blocks, bfree, bsize } = statfsSync(this.folder)
      try {
        // Size 0 would be no limit.
        this.#resize(Math.max(1, blocks - bfree) * bsize)
        return
      } catch (error) {
        // Something was written meanwhile, and a disk does not become smaller than that.
        if (left === 0) throw error
      }
    }
  }

  empty(): void {
    this.#resize(this.#bytes)
  }

  unmount(): void {
    if (isRoot) execFileSync('umount', ['-l', this.folder])
  }

  #resize(bytes: number): void {
    execFileSync('mount', ['-o', `remount,size=${bytes}`, this.folder], { stdio: 'pipe' })
  }
}
