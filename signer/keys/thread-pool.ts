/**
 * Threads of libuv's pool, in which slow signatures are made. One stays free, so
 * that the audit chain never queues.
 */
export function poolThreads(): number {
  return Number(process.env['UV_THREADPOOL_SIZE']) || DEFAULT_THREADS
}

/** What libuv makes when the variable is not set. */
const DEFAULT_THREADS = 4
