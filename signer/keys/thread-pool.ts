/**
 * Threads of libuv's pool, which make slow signatures. One stays free, so that the audit chain
 * never queues.
 */
export function poolThreads(): number {
  return Number(process.env['UV_THREADPOOL_SIZE']) || DEFAULT_THREADS
}

/** libuv's default without the variable. */
const DEFAULT_THREADS = 4
