/** The supervisor's side of the thread that encodes CRL entries: one page at a time, without state. */

import { programFile } from '../src/shared/lib/program-files.ts'
import { startThreads } from './pool.ts'

export interface CrlEntriesJob {
  /** One word per revoked certificate: hexadecimal serial number, seconds since 1970 and reason, joined by dots. */
  rows: string
  /** Upper limit of all revocation times. */
  thisUpdateMs: number
}

interface CrlPool {
  /**
   * Returns the concatenated DER of the entries.
   * @throws Error when the thread is lost or a row cannot be encoded
   */
  encode(job: CrlEntriesJob): Promise<Buffer>
  close(): Promise<void>
}

/** One thread suffices: it encodes and checks a million entries while they are read and signed. */
const THREADS = 1

export function createCrlPool(onThreadError: (error: Error) => void): CrlPool {
  const piscina = startThreads({
    threads: THREADS,
    taskFile: programFile('workers/crl.ts'),
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
