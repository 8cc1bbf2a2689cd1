#!/usr/bin/env node
/**
 * Starts chancery-signer. It sets the size of libuv's thread pool first, because Node 20 reads ES
 * modules through that pool.
 *
 * Sessions of a token and slow file keys sign in pool threads. 40 threads suffice for 32 sessions
 * and the audit chain; an idle thread costs a few kilobytes.
 *
 * Signal handlers come before all other modules, and so before any key: Node answers SIGUSR1 with
 * its debugger.
 */

process.env['UV_THREADPOOL_SIZE'] ??= '40'
void start()

async function start(): Promise<void> {
  const { ignoreUserSignals, RELOAD_OR_STOP } = await import('../src/shared/lib/user-signals.ts')
  ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery-signer: ${sentence}\n`))
  await import('./main.ts')
}
