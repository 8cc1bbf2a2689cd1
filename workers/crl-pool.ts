/**
 * The thread that encodes CRL entries, seen from the supervisor: one page at a time, without state.
 */

import { startThreads } from './pool.ts'

export interface CrlEntriesJob {
  /**
   * One word for each revoked certificate: serial number in hexadecimal, seconds
   * since 1970, reason, joined by dots.
   */
  rows: string
  /** No entry is later. */
  thisUpdateMs: number
}

export interface CrlPool {
  /**
   * DER of the entries, concatenated. @throws Error when the thread is lost
   * or a row cannot be expressed
   */
  encode(job: CrlEntriesJob): Promise<Buffer>
  close(): Promise<void>
}

/**
 * One is enough: it encodes and checks a million entries in the time that
 * reading and signing them take.
 */
const THREADS = 1

export function createCrlPool(onThreadError: (error: Error) => void): CrlPool {
  const piscina = startThreads({
    threads: THREADS,
    taskFile: new URL('./crl.js', import.meta.url),
    onThreadError,
  })
  return {
    async encode(job) {
      const der: Uint8Array = await piscina.run(job)
      return Buffer.from(der.buffer, der.byteOffset, der.byteLength)
    },
    close: () => piscina.destroy(),
  }
}
