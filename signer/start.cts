#!/usr/bin/env node
/**
 * Where chancery-signer starts: the size of libuv's thread pool has to be settled before the first module is loaded, since
 * Node 20 reads ES modules through that pool.
 *
 * A token's session signs in a thread of the pool, and so do slow file keys; 32 sessions and some threads for the audit
 * chain find room. A thread that has nothing to do costs a few kilobytes.
 *
 * The signals that Node would answer with its debugger are taken before the rest is loaded, and long before a key is read.
 */

process.env['UV_THREADPOOL_SIZE'] ??= '40'
void start()

async function start(): Promise<void> {
  const { ignoreUserSignals, RELOAD_OR_STOP } = await import('../src/shared/lib/user-signals.ts')
  ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery-signer: ${sentence}\n`))
  await import('./main.ts')
}
